"""A set of tools with unique names, and the execution of a model's calls."""

from __future__ import annotations

import asyncio
import difflib
import time
from collections import Counter
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from jianmu.errors import ConfigurationError, ToolArgumentsError, ToolSchemaError, ToolTimeoutError, UnknownToolError
from jianmu.events import ToolFailed, ToolFinished, ToolStarted, emit
from jianmu.messages import Message
from jianmu.tools.base import Tool, ToolContext, check_tool
from jianmu.tools.results import cut, error_result, result_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from jianmu.messages import ToolCall

_SHOWN = 200
"""Characters of undecodable arguments that are shown to the model again."""
_COUNTED = frozenset(("invalid_json", "invalid_arguments", "timeout", "exception"))
"""Failures that a tool can be blamed for."""


class ToolSet:
    """Tools by name, always in the order of their names.

    Args:
        tools: the tools; no name twice.
        max_consecutive_errors: a tool that failed this often in a row is not called any more, and the model is told so;
            a success or `reset_errors` starts the count again. None never stops.
        max_result_chars: cut results after this many characters where the tool itself sets no limit; None keeps all.

    Raises:
        ToolSchemaError: two tools have the same name, or one cannot be offered to a model.

    Example:
        >>> from jianmu.messages import ToolCall
        >>> from jianmu.tools import tool
        >>> @tool
        ... def double(number: int) -> int:
        ...     return 2 * number
        >>> tools = ToolSet([double])
        >>> [result] = asyncio.run(tools.execute([ToolCall(name="double", arguments={"number": 4})]))
        >>> result.text
        '8'
    """

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        max_consecutive_errors: int | None = 5,
        max_result_chars: int | None = None,
    ) -> None:
        for name, limit in (
            ("max_consecutive_errors", max_consecutive_errors),
            ("max_result_chars", max_result_chars),
        ):
            if limit is not None and limit < 1:
                raise ConfigurationError(f"{name} is {limit}; use a number of at least 1, or None for no limit")
        self.max_consecutive_errors = max_consecutive_errors
        self.max_result_chars = max_result_chars
        self._tools: dict[str, Tool] = {}
        self._errors: Counter[str] = Counter()
        self.add(*tools)

    # ------------------------------------------------------------ the set

    def add(self, *tools: Tool) -> None:
        """Add tools; when one cannot be added, none is.

        Raises:
            ToolSchemaError: a name is taken, or a tool cannot be offered to a model.
        """
        grown = dict(self._tools)
        for tool in tools:
            if check_tool(tool).name in grown:
                raise ToolSchemaError(f"there are two tools named {tool.name!r}; rename one, or use prefixed()")
            grown[tool.name] = tool
        self._tools = dict(sorted(grown.items()))

    def get(self, name: str) -> Tool:
        """Return a tool.

        Raises:
            UnknownToolError: there is none of this name; the message names similar ones.
        """
        if name in self._tools:
            return self._tools[name]
        raise UnknownToolError(self._unknown(name))

    def similar(self, name: str) -> list[str]:
        """Return up to three names that look like this one, the nearest first."""
        by_lower = {known.lower(): known for known in self._tools}
        return [by_lower[near] for near in difflib.get_close_matches(name.lower(), by_lower, n=3)]

    @property
    def names(self) -> list[str]:
        """All names, sorted."""
        return list(self._tools)

    def merge(self, *others: Iterable[Tool]) -> ToolSet:
        """Return a new set of these tools and the others.

        Raises:
            ToolSchemaError: a name is in two of them.
        """
        return self._like([*self, *(tool for other in others for tool in other)])

    def subset(self, names: Iterable[str]) -> ToolSet:
        """Return a new set of the named tools only.

        Raises:
            UnknownToolError: one of the names is not here.
        """
        return self._like([self.get(name) for name in dict.fromkeys(names)])

    def filtered(self, keep: Callable[[Tool], bool]) -> ToolSet:
        """Return a new set of the tools that ``keep`` says True to."""
        return self._like([tool for tool in self if keep(tool)])

    def prefixed(self, prefix: str) -> ToolSet:
        """Return a new set of the same tools with a prefix before each name."""
        return self._like([tool.renamed(prefix + tool.name) for tool in self])

    def _like(self, tools: Iterable[Tool]) -> ToolSet:
        return ToolSet(
            tools, max_consecutive_errors=self.max_consecutive_errors, max_result_chars=self.max_result_chars
        )

    def _unknown(self, name: str) -> str:
        near = " or ".join(map(repr, self.similar(name)))
        hint = f"did you mean {near}?" if near else f"there are: {', '.join(self._tools) or 'none'}"
        return f"there is no tool named {name!r}; {hint}"

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, tool: object) -> bool:
        return tool in self._tools if isinstance(tool, str) else tool in self._tools.values()

    def __repr__(self) -> str:
        return f"ToolSet({', '.join(self._tools)})"

    # ------------------------------------------------------------ execution

    async def execute(
        self, calls: Iterable[ToolCall], *, context: ToolContext | None = None, approved: Collection[str] = ()
    ) -> list[Message]:
        """Run a model's calls and answer each one.

        Calls run side by side; a tool that is ``sequential`` waits for those before it and keeps back those after it.
        Whatever goes wrong is an answer for the model, never an exception: an unknown tool, arguments that are no JSON
        or do not fit, a time-out, an exception. When the caller is cancelled, the calls are cancelled and awaited.

        Args:
            calls: what the model asked for.
            context: handed to each tool, with the call's own ``call_id``; an ``idempotency_key`` is made the call's own
                by adding its position.
            approved: ids of the calls that a person agreed to. A call that needs approval and is not among them is
                refused; `awaiting_approval` finds them beforehand. An id that two of the calls share approves neither.

        Returns:
            One tool result per call, in the order of the calls. Failures have ``metadata["is_error"]``.
        """
        base = context if context is not None else ToolContext()
        jobs = [(call, _own_context(base, call, position)) for position, call in enumerate(calls)]
        shared = Counter(call.id for call, _ in jobs)
        approved = frozenset(call_id for call_id in approved if shared[call_id] == 1)
        results: list[Message] = []
        for alone, batch in groupby(jobs, key=lambda job: self._runs_alone(job[0])):
            for part in ([job] for job in batch) if alone else [list(batch)]:
                results += await self._side_by_side(part, approved)
        return results

    async def execute_call(
        self, call: ToolCall, *, context: ToolContext | None = None, approved: Collection[str] = ()
    ) -> Message:
        """Run one call and answer it, as `execute` does, but with the context as it is (plus the ``call_id``)."""
        own = replace(context or ToolContext(), call_id=call.id)
        return self._counted(call, await self._answer(call, own, approved))

    async def awaiting_approval(self, calls: Iterable[ToolCall]) -> list[ToolCall]:
        """Return the calls a person has to agree to. Those that would fail anyway are not among them."""
        return [call for call in calls if self._is_sound(call) and await self._needs_approval(call)]

    @property
    def errors(self) -> dict[str, int]:
        """How often each tool has failed in a row; tools whose last call went well are left out."""
        return dict(+self._errors)

    def reset_errors(self, name: str | None = None) -> None:
        """Forget the failures of one tool, or of all."""
        if name is None:
            self._errors.clear()
        else:
            self._errors.pop(name, None)

    async def _needs_approval(self, call: ToolCall) -> bool:
        return await self._tools[call.name].needs_approval(call.arguments)

    def _runs_alone(self, call: ToolCall) -> bool:
        return call.name in self._tools and self._tools[call.name].sequential

    def _is_sound(self, call: ToolCall) -> bool:
        if call.raw_arguments is not None or call.name not in self._tools:
            return False
        try:
            self._tools[call.name].validate(call.arguments)
        except ToolArgumentsError:
            return False
        return True

    async def _side_by_side(self, jobs: list[tuple[ToolCall, ToolContext]], approved: Collection[str]) -> list[Message]:
        if len(jobs) == 1:
            call, context = jobs[0]
            return [self._counted(call, await self._answer(call, context, approved))]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._answer(call, context, approved)) for call, context in jobs]
        return [self._counted(call, task.result()) for (call, _), task in zip(jobs, tasks, strict=True)]

    def _counted(self, call: ToolCall, result: Message) -> Message:
        """Count failures in the order of the calls, whichever ended first."""
        kind = result.metadata.get("error_type")
        if kind is None:
            self._errors.pop(call.name, None)
        elif kind in _COUNTED:
            self._errors[call.name] += 1
        return result

    async def _answer(self, call: ToolCall, context: ToolContext, approved: Collection[str]) -> Message:
        refusal = self._refusal(call) or (None if call.id in approved else await self._approval_refusal(call))
        if refusal is not None:
            emit(ToolFailed(tool=call.name, call_id=call.id, error=str(refusal.metadata["error_type"])))
            return refusal
        return await self._call(self._tools[call.name], call, context)

    def _refusal(self, call: ToolCall) -> Message | None:
        if call.name not in self._tools:
            return error_result(call, "unknown_tool", self._unknown(call.name), similar=self.similar(call.name))
        if self.max_consecutive_errors is not None and self._errors[call.name] >= self.max_consecutive_errors:
            message = f"failed {self._errors[call.name]} times in a row and is switched off; go on without it"
            return error_result(call, "too_many_errors", message)
        if call.raw_arguments is not None:
            received = cut(call.raw_arguments, _SHOWN)
            return error_result(call, "invalid_json", "the arguments are no JSON object", received=received)
        return None

    async def _approval_refusal(self, call: ToolCall) -> Message | None:
        if await self.awaiting_approval([call]):
            return error_result(call, "not_approved", "a person has to agree to this call, and has not")
        return None

    async def _call(self, tool: Tool, call: ToolCall, context: ToolContext) -> Message:
        emit(ToolStarted(tool=tool.name, call_id=call.id, arguments=dict(call.arguments)))
        started = time.perf_counter()
        try:
            value = await tool.invoke(call.arguments, context=context)
            text = cut(result_text(value), tool.max_result_chars or self.max_result_chars)
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            return self._failed(call, error, "exception", "the tool cancelled itself")
        except ToolArgumentsError as error:
            return self._failed(call, error, "invalid_arguments", "the arguments do not fit", problems=error.problems)
        except ToolTimeoutError as error:
            return self._failed(call, error, "timeout", str(error))
        except Exception as error:
            return self._failed(call, error, "exception", str(error))
        emit(ToolFinished(tool=tool.name, call_id=call.id, seconds=time.perf_counter() - started, chars=len(text)))
        return Message.tool_result(call.id, text, name=call.name)

    def _failed(self, call: ToolCall, error: BaseException, kind: str, message: str, **details: Any) -> Message:
        described = f"{type(error).__name__}: {error}"
        emit(ToolFailed(tool=call.name, call_id=call.id, error=described))
        if kind == "exception":
            details["exception"] = type(error).__name__
        return error_result(call, kind, message, **details)


def _own_context(base: ToolContext, call: ToolCall, position: int) -> ToolContext:
    key = None if base.idempotency_key is None else f"{base.idempotency_key}/{position}"
    return replace(base, call_id=call.id, idempotency_key=key)

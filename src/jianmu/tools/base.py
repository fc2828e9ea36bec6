"""The base class of everything a model may call."""

from __future__ import annotations

import asyncio
import copy
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from jianmu.errors import ToolArgumentsError, ToolSchemaError, ToolTimeoutError
from jianmu.tools.arguments import Schema, drop_unset, find_problems

if TYPE_CHECKING:
    from jianmu.state import StateManager

Effect: TypeAlias = Literal["read", "write"]
ApprovalRule: TypeAlias = bool | Callable[[dict[str, Any]], bool | Awaitable[bool]]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_CONTEXT_TEXT = re.compile(r"(?:Optional\[)?(?:\w+\.)*ToolContext\]?(?:\s*\|\s*None)?")


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """What a tool may know about the call beyond its arguments.

    A tool gets it by asking: a parameter of ``run`` that is annotated ``ToolContext`` is filled in and never shown to
    the model.

    Attributes:
        thread_id: the thread of the run; None outside a run.
        call_id: the id of the model's call.
        idempotency_key: the same text whenever this very call is made again after a crash; hand it to services that
            drop repeated requests.
        state: the run's `StateManager`; None outside a run.
        metadata: anything the caller wants to pass on.
    """

    thread_id: str | None = None
    call_id: str | None = None
    idempotency_key: str | None = None
    state: StateManager[Any] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Tool(ABC):
    """Something a model may call.

    A subclass sets the attributes, on the class or in its constructor, and writes ``run``. `tool` makes one from a
    function.

    Attributes:
        name: letters, digits, ``_`` and ``-``, at most 64.
        description: tells the model what the tool does and when to use it.
        input_schema: JSON Schema of an object: one property per parameter. Parameters it does not name are refused
            unless it says ``additionalProperties``.
        output_schema: JSON Schema of the result, or None.
        effect: ``"write"`` when a call changes something outside the conversation.
        idempotent: calling it twice with the same arguments does no more than calling it once.
        requires_approval: whether a person has to agree first; a callable, sync or async, decides from the arguments
            as the model sent them. One that raises, or answers anything but False, asks for approval.
        timeout: seconds until a call is given up; None waits for ever. A sync ``run`` cannot be stopped, neither by
            this nor by cancelling the caller: its thread goes on and its result is thrown away.
        sequential: never run beside other calls.
        max_result_chars: cut the result's text after this many characters; None keeps all.

    Example:
        >>> class Shout(Tool):
        ...     name = "shout"
        ...     description = "Write a text in capitals."
        ...     input_schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        ...
        ...     def run(self, text: str) -> str:
        ...         return text.upper()
    """

    name: str
    description: str = ""
    input_schema: Schema = {"type": "object", "properties": {}}  # noqa: RUF012 - subclasses replace it, none edits it
    output_schema: Schema | None = None
    effect: Effect = "read"
    idempotent: bool = False
    requires_approval: ApprovalRule = False
    timeout: float | None = None
    sequential: bool = False
    max_result_chars: int | None = None

    @abstractmethod
    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work; sync or async.

        Arguments always come by name, checked against ``input_schema``.
        """

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Check arguments and return them as ``run`` takes them.

        Null for an optional parameter that does not take null counts as not given.

        Raises:
            ToolArgumentsError: they do not fit ``input_schema``; lists every problem.
        """
        schema: Schema = {"additionalProperties": False, **self.input_schema}
        given = drop_unset(dict(arguments), schema)
        if problems := find_problems(given, schema):
            raise ToolArgumentsError(self.name, problems)
        return given

    async def invoke(self, arguments: Mapping[str, Any], *, context: ToolContext | None = None) -> Any:
        """Check the arguments and run the tool: async on the loop, sync in a thread that sees the same contextvars.

        Approval is the caller's matter: ask `needs_approval` first.

        Args:
            arguments: decoded JSON, by parameter name.
            context: handed to ``run`` if it asks for it.

        Returns:
            What ``run`` returned.

        Raises:
            ToolArgumentsError: the arguments do not fit.
            ToolTimeoutError: ``timeout`` seconds passed.
        """
        values = self.validate(arguments)
        if (parameter := context_parameter(self._target())) is not None:
            values[parameter] = context if context is not None else ToolContext()
        limit = asyncio.timeout(self.timeout)
        try:
            async with limit:
                return await self._running(values)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ToolTimeoutError(f"tool {self.name!r} did not answer within {self.timeout:g} s") from error

    async def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Tell whether a person has to agree to this call. A rule that raises or does not answer False means yes."""
        rule = self.requires_approval
        if isinstance(rule, bool):
            return rule
        try:
            answer = rule(dict(arguments))
            return (await answer if inspect.isawaitable(answer) else answer) is not False
        except Exception:
            return True

    def renamed(self, name: str) -> Tool:
        """Return the same tool under another name."""
        twin = copy.copy(self)
        twin.name = check_name(name)
        return twin

    def _target(self) -> Callable[..., Any]:
        """What is called; its signature tells whether it is async and wants the context."""
        return self.run

    async def _running(self, values: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(target := self._target()):
            return await target(**values)
        result = await asyncio.to_thread(self._run_in_thread, values)
        return await result if inspect.isawaitable(result) else result

    def _run_in_thread(self, values: dict[str, Any]) -> Any:
        try:
            return self._target()(**values)
        except StopIteration as error:
            # A future cannot carry StopIteration: the caller would wait for ever.
            raise RuntimeError(f"tool {self.name!r} raised StopIteration") from error

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self, 'name', '?')!r})"


def check_name(name: Any) -> str:
    """Return a tool name that every provider takes.

    Raises:
        ToolSchemaError: it is not 1 to 64 letters, digits, ``_`` or ``-``.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ToolSchemaError(f"tool name {name!r}: use 1 to 64 letters, digits, '_' or '-'")
    return name


def check_tool(tool: Tool) -> Tool:
    """Return a tool that can be offered to a model.

    Raises:
        ToolSchemaError: it has no usable name, its ``input_schema`` is not that of an object, or its ``timeout`` is
            not a positive number.
    """
    name = check_name(getattr(tool, "name", None))
    if tool.input_schema.get("type") != "object":
        raise ToolSchemaError(f"tool {name!r}: input_schema must be of type 'object', with a property per parameter")
    if tool.timeout is not None and not tool.timeout > 0:
        raise ToolSchemaError(f"tool {name!r}: timeout is {tool.timeout!r}; use a number of seconds above 0, or None")
    return tool


def context_parameter(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter annotated `ToolContext`, if there is one."""
    return next(
        (
            name
            for name, parameter in inspect.signature(function).parameters.items()
            if _is_context(parameter.annotation)
        ),
        None,
    )


def _is_context(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return _CONTEXT_TEXT.fullmatch(annotation.strip()) is not None
    return annotation is ToolContext or ToolContext in get_args(annotation)

"""The leaf that gives each of a model's calls its result, whatever happens."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from py_trees.common import Status

from jianmu.behaviours import NOT_DONE, AsyncBehaviour
from jianmu.messages import Message, ToolCall
from jianmu.serialization import decode, encode
from jianmu.state import Stage, current_stage, staged
from jianmu.tools import ToolContext, canonical_json, result_text
from jianmu.tools.results import cut, error_result

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from jianmu.behaviours.host import Decision, InDoubt
    from jianmu.tools import Tool, ToolSet

_T = TypeVar("_T")


@dataclass(frozen=True)
class _Job:
    """One call of an answer, and what people said to it.

    Attributes:
        key: names the call within the answer, even if the model repeats an id.
        asked: the call, as the model asked for it.
        decision: what a person decided; None where nobody is asked.
    """

    key: str
    asked: ToolCall
    decision: Decision | None = None

    @property
    def refused(self) -> bool:
        """Whether the call must not be made."""
        return self.decision is not None and not self.decision.approved

    @property
    def edited(self) -> bool:
        """Whether the person changed the arguments."""
        return self.decision is not None and self.decision.args != self.asked.arguments

    @property
    def call(self) -> ToolCall:
        """The call to make."""
        if self.decision is None:
            return self.asked
        return self.asked.model_copy(update={"arguments": self.decision.args})


@dataclass(frozen=True)
class _Done:
    """A call's result, and what the tool wrote to the state."""

    message: Message
    updates: list[dict[str, Any]]


class CallTools(AsyncBehaviour):
    """Gives every call of the last message its result, in order, and appends the results to ``messages``.

    People are asked first, so that nothing has begun while the run waits for them. Then calls run side by side; a tool
    that is ``sequential`` runs alone. What tools write to the state becomes visible in the order of the calls.

    Args:
        name: the behaviour's name.
        tools: the tools.
        approval_expires_in: seconds after which nobody can approve a call any more; None for never.
        in_doubt: as for `AsyncBehaviour.effect`.
    """

    def __init__(
        self,
        name: str,
        tools: ToolSet,
        *,
        approval_expires_in: float | None = None,
        in_doubt: InDoubt = "fail",
    ) -> None:
        super().__init__(name)
        self._tools = tools
        self._approval_expires_in = approval_expires_in
        self._in_doubt: InDoubt = in_doubt

    async def run(self) -> Status:
        """Answer the calls."""
        calls = self.state.get("messages")[-1].tool_calls
        jobs = [_Job(f"{call.id}/{position}", call) for position, call in enumerate(calls)]
        jobs = await self._decided(jobs)
        done: list[_Done] = []
        for alone, batch in groupby(jobs, key=self._runs_alone):
            for part in ([job] for job in batch) if alone else [list(batch)]:
                done += await self._side_by_side(self._answered, part)
        self.state.update(messages=[_told(job, one.message) for job, one in zip(jobs, done, strict=True)])
        for update in (update for one in done for update in one.updates):
            self.state.update(update)
        return Status.SUCCESS

    # -- people -------------------------------------------------------------------------------------------------

    async def _decided(self, jobs: list[_Job]) -> list[_Job]:
        """Ask people, where they have to agree."""
        asking = [job for job in jobs if await self._tools.awaiting_approval([job.asked])]
        decided = {job.key: job for job in await self._side_by_side(self._ask, asking)}
        return [decided.get(job.key, job) for job in jobs]

    async def _ask(self, job: _Job) -> _Job:
        call = job.asked
        decision = await self.request_approval(
            call.name, dict(call.arguments), key=job.key, expires_in=self._approval_expires_in
        )
        return _Job(job.key, call, decision)

    # -- tools --------------------------------------------------------------------------------------------------

    def _runs_alone(self, job: _Job) -> bool:
        tool = self._tool(job)
        return tool is not None and tool.sequential

    def _tool(self, job: _Job) -> Tool | None:
        return self._tools.get(job.call.name) if job.call.name in self._tools.names else None

    async def _answered(self, job: _Job) -> _Done:
        tool = self._tool(job)
        if job.refused:
            return _Done(_refusal(job), [])
        if tool is None or tool.effect == "read":
            return await self._called(job.call, None, approved=job.decision is not None)
        return await self._called_once(job, tool)

    async def _called_once(self, job: _Job, tool: Tool) -> _Done:
        """Call a tool that writes, through the journal, which keeps the result and what went into the state."""

        async def act(asked: dict[str, Any], *, idempotency_key: str) -> dict[str, Any]:
            call = ToolCall.model_validate(asked)
            return _as_data(await self._called(call, idempotency_key, approved=job.decision is not None))

        async def look(idempotency_key: str) -> Any:
            assert reconcile is not None
            found = reconcile(idempotency_key)
            found = await found if inspect.isawaitable(found) else found
            return found if found is NOT_DONE else _as_data(_Done(self._result(tool, job.call, found), []))

        reconcile: Callable[[str], Any] | None = getattr(tool, "reconcile", None)
        data = await self.effect(
            job.key,
            act,
            job.call.model_dump(),
            idempotent=tool.idempotent,
            reconcile=None if reconcile is None else look,
            in_doubt=self._in_doubt,
        )
        return _Done(Message.model_validate(data["message"]), decode(data["updates"]))

    async def _called(self, call: ToolCall, idempotency_key: str | None, *, approved: bool) -> _Done:
        context = ToolContext(thread_id=self._runner().thread_id, idempotency_key=idempotency_key, state=self.state)
        ids = [call.id] if approved else []
        message = await self._tools.execute_call(call, context=context, approved=ids)
        stage = current_stage(self.state)
        return _Done(message, [] if stage is None else [dict(update) for update in stage.updates])

    def _result(self, tool: Tool, call: ToolCall, value: Any) -> Message:
        text = cut(result_text(value), tool.max_result_chars or self._tools.max_result_chars)
        return Message.tool_result(call.id, text, name=call.name)

    # -- side by side -------------------------------------------------------------------------------------------

    async def _side_by_side(self, work: Callable[[_Job], Coroutine[Any, Any, _T]], jobs: list[_Job]) -> list[_T]:
        """Do the same with several jobs; the runner owns their tasks.

        Each has a stage of its own: what a tool writes to the state is caught there. All are waited for, also when one
        raises: an effect must not be cut off because another one failed.
        """
        tasks: list[asyncio.Task[_T]] = []
        for job in jobs:
            with staged(Stage(self.state)):
                tasks.append(self._runner().spawn(self, partial(work, job)))
        await asyncio.gather(*tasks, return_exceptions=True)
        return [task.result() for task in tasks]


def _as_data(done: _Done) -> dict[str, Any]:
    return {"message": done.message.model_dump(), "updates": encode(done.updates, "the state's updates", typed=True)}


def _refusal(job: _Job) -> Message:
    assert job.decision is not None
    outcome, reason = job.decision.outcome, job.decision.reason
    message = f"a person has to agree to this call; it was {outcome}" + (f": {reason}" if reason else "")
    return error_result(job.asked, outcome, message)


def _told(job: _Job, result: Message) -> Message:
    """Let the model know when its call was made with other arguments."""
    if job.refused or not job.edited:
        return result
    note = f"[a person changed the arguments to {canonical_json(job.call.arguments)}]"
    return result.model_copy(update={"content": f"{note}\n{result.text}"})

"""The ReAct agent: ask the model, call the tools it wants, until it answers.

::

    {name}                      _Turns: another turn until one answers
    └── turn                    Sequence
        ├── ask the model       AskModel: prompt from the state, answer into the state
        ├── call the tools      CallTools: one result for each call of the answer
        └── answered?           the answer asked for no call

Everything it knows is in the state, so a checkpoint resumes it anywhere: after each model's answer and after each round
of tools; what a tool did to the outside world is journaled on its own.
"""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from py_trees.common import Status
from py_trees.composites import Sequence as SequenceNode
from pydantic import BaseModel

from jianmu.behaviours import NOT_DONE, AsyncBehaviour, FunctionBehaviour, LoopUntilSuccess
from jianmu.errors import ModelError
from jianmu.memory.context import ContextBuilder
from jianmu.messages import Message, ToolCall
from jianmu.models import ModelResponse
from jianmu.serialization import decode, encode
from jianmu.state import Stage, append, staged
from jianmu.tools import ToolContext, ToolSet, canonical_json, result_text
from jianmu.tools.results import cut, error_result

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from py_trees.behaviour import Behaviour

    from jianmu.behaviours.host import Decision, InDoubt
    from jianmu.memory.context.providers import Text
    from jianmu.models import ChatModel, ModelSettings
    from jianmu.state import StateManager
    from jianmu.tools import Tool

_T = TypeVar("_T")


class ReactState(BaseModel):
    """What a ReAct agent needs of a state; inherit from it to add fields of your own.

    Attributes:
        messages: the conversation; give the user's message as input of a run.
        answer: the text of the last answer that asked for no call.
    """

    messages: Annotated[list[Message], append] = []
    answer: str = ""


def react_agent(
    model: ChatModel,
    tools: Iterable[Tool] = (),
    *,
    system_prompt: Text = "",
    max_turns: int | None = 20,
    name: str = "react",
    context: ContextBuilder | None = None,
    settings: ModelSettings | None = None,
    stream: bool = False,
    approval_expires_in: float | None = None,
    in_doubt: InDoubt = "fail",
) -> Behaviour:
    """Make the tree of an agent that reasons and acts. Run it over a state with the fields of `ReactState`.

    It succeeds when the model gives an answer without calls. It fails when ``max_turns`` are over, when the model
    cannot be asked, and when it is unknown whether a tool did its work; the error is then in ``RunResult.errors``.
    Whatever else goes wrong with a tool is told to the model. The next turn of a conversation is the next run, with the
    user's message as input.

    A tool with ``effect="write"`` is called through the effect journal: what it did is not done again when the run
    resumes after a crash. If the crash came between the tool's work and the journal, an ``idempotent`` tool is called
    again; a tool that has a method ``reconcile(idempotency_key)`` is asked instead, and returns its result or
    ``NOT_DONE``. Such tools find the key in their `ToolContext`. Tools that only read run again.

    A tool with ``requires_approval`` is called when a person has approved, with the arguments as the person left them.

    Args:
        model: the model.
        tools: what it may call.
        system_prompt: the system prompt, or a function that makes it from the state; not with ``context``.
        max_turns: requests to the model in one run; None for no limit.
        name: the root's name.
        context: builds the prompts; by default `ContextBuilder.for_react` with the system prompt and the tools.
        settings: how the model is to answer.
        stream: stream the answers; pieces are told as ``model.delta`` events.
        approval_expires_in: seconds after which nobody can approve a call any more; None for never.
        in_doubt: what happens to a call whose outcome nothing tells: ``"fail"`` the agent, or ``"ask"`` a person.

    Example:
        >>> agent = react_agent(model, [weather], system_prompt="Answer in one sentence.")    # doctest: +SKIP
        >>> state = StateManager(ReactState)                                                  # doctest: +SKIP
        >>> question = {"messages": [Message.user("Do I need an umbrella in Turin?")]}        # doctest: +SKIP
        >>> await ReactiveRunner(agent, state).run(question)                                  # doctest: +SKIP
        >>> state.get("answer")                                                               # doctest: +SKIP
        'No, the sun is shining in Turin.'
    """
    toolset = tools if isinstance(tools, ToolSet) else ToolSet(tools)
    builder = context or ContextBuilder.for_react(system_prompt, toolset)
    turn = SequenceNode(
        "turn",
        memory=True,
        children=[
            AskModel("ask the model", model, builder, settings=settings, stream=stream),
            CallTools("call the tools", toolset, approval_expires_in=approval_expires_in, in_doubt=in_doubt),
            FunctionBehaviour("answered?", _is_answered),
        ],
    )
    return _Turns(name, turn, max_rounds=max_turns)


def _is_answered(state: StateManager[Any]) -> bool:
    return state.get("messages")[-1].role == "assistant"


class _Turns(LoopUntilSuccess):
    """Another turn until one answers. A leaf that raised ends the agent: asking again would not help."""

    def update(self) -> Status:
        raised = next((node for node in self.decorated.children if getattr(node, "error", None)), None)
        if raised is None:
            return super().update()
        self.feedback_message = f"{raised.name}: {raised.feedback_message}"
        return Status.FAILURE


class AskModel(AsyncBehaviour):
    """Asks a model with the prompt that the state gives, and appends its answer to ``messages``.

    An answer without calls is also put into ``answer``.

    Args:
        name: the behaviour's name.
        model: the model.
        context: builds the prompt and says which tools are offered.
        settings: how the model is to answer.
        stream: stream the answer; pieces are told as ``model.delta`` events.
    """

    def __init__(
        self,
        name: str,
        model: ChatModel,
        context: ContextBuilder,
        *,
        settings: ModelSettings | None = None,
        stream: bool = False,
    ) -> None:
        super().__init__(name)
        self._model = model
        self._context = context
        self._settings = settings
        self._stream = stream

    async def run(self) -> Status:
        """Ask once."""
        built = await self._context.build(self.state)
        response = await self._asked(built.messages, built.tools)
        if response.usage.input_tokens:
            self._context.calibrate(built, response.usage.input_tokens)
        summary = [] if built.summary is None else [built.summary]
        self.state.update(messages=[*summary, response.message])
        if not response.message.tool_calls:
            self.state.update(answer=response.message.text)
        return Status.SUCCESS

    async def _asked(self, messages: Any, tools: ToolSet) -> ModelResponse:
        if not self._stream:
            response = await self._model.complete(messages, tools=tools, settings=self._settings)
        else:
            response = None
            async for part in self._model.stream(messages, tools=tools, settings=self._settings):
                response = part if isinstance(part, ModelResponse) else response
        if response is None or not (response.message.tool_calls or response.message.content):
            reason = response.finish_reason if response else None
            raise ModelError(f"model {self._model.name!r} gave neither text nor calls (finish reason: {reason})")
        return response


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
        for update in (update for one in done for update in one.updates):
            self.state.update(update)
        self.state.update(messages=[_told(job, one.message) for job, one in zip(jobs, done, strict=True)])
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
        """Call a tool; what it writes to the state is caught, for its place in the order of the calls."""
        context = ToolContext(thread_id=self._runner().thread_id, idempotency_key=idempotency_key, state=self.state)
        stage = Stage(self.state)
        with staged(stage):
            ids = [call.id] if approved else []
            message = await self._tools.execute_call(call, context=context, approved=ids)
        return _Done(message, [dict(update) for update in stage.updates])

    def _result(self, tool: Tool, call: ToolCall, value: Any) -> Message:
        text = cut(result_text(value), tool.max_result_chars or self._tools.max_result_chars)
        return Message.tool_result(call.id, text, name=call.name)

    # -- side by side -------------------------------------------------------------------------------------------

    async def _side_by_side(self, work: Callable[[_Job], Coroutine[Any, Any, _T]], jobs: list[_Job]) -> list[_T]:
        """Do the same with several jobs; the runner owns their tasks.

        All are waited for, also when one raises: an effect must not be cut off because another one failed.
        """
        if len(jobs) < 2:
            return [await work(job) for job in jobs]
        tasks = [self._runner().spawn(self, lambda job=job: work(job)) for job in jobs]
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

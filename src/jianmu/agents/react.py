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

from typing import TYPE_CHECKING, Annotated, Any

from py_trees.common import Status
from py_trees.composites import Sequence as SequenceNode
from pydantic import BaseModel

from jianmu.agents.calls import CallTools
from jianmu.behaviours import AsyncBehaviour, FunctionBehaviour, LoopUntilSuccess
from jianmu.errors import ModelError
from jianmu.memory.context import ContextBuilder
from jianmu.messages import Message
from jianmu.models import ModelResponse
from jianmu.state import append
from jianmu.tools import ToolSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from py_trees.behaviour import Behaviour

    from jianmu.behaviours.host import InDoubt
    from jianmu.memory.context.providers import Text
    from jianmu.models import ChatModel, ModelSettings
    from jianmu.state import StateManager
    from jianmu.tools import Tool


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

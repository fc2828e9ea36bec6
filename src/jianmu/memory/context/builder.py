"""Builds the prompt of the next request from the state, within a budget."""

from __future__ import annotations

import inspect
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, TypedDict, Unpack

from jianmu.errors import ConfigurationError
from jianmu.memory.context.budget import (
    Calibration,
    EstimateTokenCounter,
    TokenBudget,
    TokenCounter,
    message_tokens,
    tools_tokens,
)
from jianmu.memory.context.draft import Conversation, Draft, Prompt, summary_segment
from jianmu.memory.context.filters import ContextFilter, apply_filters
from jianmu.memory.context.groups import cleared_result, flatten
from jianmu.memory.context.memo import Memo
from jianmu.memory.context.providers import (
    ContextProvider,
    HistorySource,
    Segment,
    SkillTextProvider,
    Stability,
    StateHistoryProvider,
    SystemPromptProvider,
    Text,
    ToolsDescProvider,
)
from jianmu.memory.context.report import BuildReport, BuiltContext, SummaryStatus
from jianmu.memory.context.summary import Summariser, SummaryHook
from jianmu.tools.toolset import ToolSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jianmu.memory.context.providers import StateReader
    from jianmu.messages import Message
    from jianmu.tools.base import Tool

_UNLIMITED = 2**63


class BuilderOptions(TypedDict, total=False):
    """What every builder can be told; see `ContextBuilder`."""

    providers: Iterable[ContextProvider]
    native_tools: bool
    filters: Iterable[ContextFilter]
    budget: TokenBudget | int | None
    counter: TokenCounter | None
    calibration: Calibration | None
    summarise: SummaryHook | None
    keep_results: int
    low_water: float


class ContextBuilder:
    """Builds prompts: tools, system prompt, stable parts, history, volatile parts, in this order.

    The history is mended first (`group_messages`), then filtered, then made to fit: old tool results are cleared, then
    the oldest groups go, and a summary may take their place. The system prompt, the last user's message and the newest
    group always stay. The state is only read.

    Args:
        history: where the conversation comes from.
        providers: the other parts, in the order in which they stand among those equally stable.
        tools: what the model may call.
        native_tools: the model takes tools in the request; otherwise describe them by a `ToolsDescProvider`.
        filters: choose from the groups of the history, in order, before the budget does.
        budget: the model's context window, in tokens or as a `TokenBudget`; None for no limit.
        counter: counts tokens; an estimate that needs no package when omitted.
        calibration: corrects the counter by what `calibrate` learns; one of its own when omitted.
        summarise: makes a summary of what no longer fits, see `SummaryHook`; None leaves it out. After three failures
            in a row the hook is left alone.
        keep_results: the tool results of this many newest groups with calls are never cleared, at least 1.
        low_water: a history that must be cut may be cut down to this share of its room, above 0 and at most 1. Low
            values keep prompt caches valid for longer, high values keep more of the history.

    Raises:
        ConfigurationError: one of the numbers is out of its range.

    Example:
        >>> builder = ContextBuilder.for_react("You are a helpful shop assistant.", budget=128_000)
        >>> built = await builder.build(state_manager)  # doctest: +SKIP
    """

    def __init__(
        self, history: HistorySource, *, tools: Iterable[Tool] = (), **options: Unpack[BuilderOptions]
    ) -> None:
        if unknown := options.keys() - BuilderOptions.__annotations__.keys():
            raise TypeError(f"ContextBuilder got unknown options: {', '.join(sorted(unknown))}")
        budget, hook = options.get("budget"), options.get("summarise")
        self.budget = TokenBudget(limit=budget) if isinstance(budget, int) else budget
        self.calibration = options.get("calibration") or Calibration()
        self.summariser = None if hook is None else Summariser(hook)
        self._history = history
        self._providers = tuple(options.get("providers", ()))
        self._tools = tools if isinstance(tools, ToolSet) else ToolSet(tools)
        self._native_tools = options.get("native_tools", True)
        self._filters = tuple(options.get("filters", ()))
        self._counter = options.get("counter") or EstimateTokenCounter()
        self._size = Memo(partial(message_tokens, counter=self._counter))
        self._clear = Memo(cleared_result)
        self._keep_results = options.get("keep_results", 3)
        self._low_water = options.get("low_water", 0.6)
        if self._keep_results < 1 or not 0 < self._low_water <= 1:
            raise ConfigurationError("keep_results has to be at least 1, low_water above 0 and at most 1")

    @classmethod
    def for_react(
        cls,
        system: Text = "",
        tools: Iterable[Tool] = (),
        *,
        field: str = "messages",
        **options: Unpack[BuilderOptions],
    ) -> ContextBuilder:
        """Make a builder for an agent that reasons and acts: system prompt, tools, history.

        With ``native_tools=False`` the tools are described in words after the system prompt.

        Args:
            system: the system prompt, or a function that makes it from the state.
            tools: what the model may call.
            field: the state field that holds the history.
            **options: see `ContextBuilder`.
        """
        toolset = tools if isinstance(tools, ToolSet) else ToolSet(tools)
        described = [] if options.get("native_tools", True) else [ToolsDescProvider(toolset)]
        options["providers"] = [SystemPromptProvider(system), *described, *options.get("providers", ())]
        return cls(StateHistoryProvider(field), tools=toolset, **options)

    @classmethod
    def for_skill(
        cls,
        skill: Text,
        tools: ToolSet | Iterable[Tool] = (),
        *,
        names: Iterable[str] | None = None,
        system: Text = "",
        field: str = "messages",
        since: int | str = 0,
        **options: Unpack[BuilderOptions],
    ) -> ContextBuilder:
        """Make a builder for one skill of an agent: its instructions, the tools it needs, its part of the history.

        Args:
            skill: the instructions, or a function that makes them from the state.
            tools: the tools to choose from.
            names: the tools of the skill; all when omitted.
            system: a system prompt before the instructions.
            field: the state field that holds the history.
            since: the first message of the skill's part: a number, or the state field that holds it.
            **options: see `ContextBuilder`.

        Raises:
            UnknownToolError: one of the names is not among the tools.
        """
        toolset = tools if isinstance(tools, ToolSet) else ToolSet(tools)
        narrowed = toolset if names is None else toolset.subset(names)
        described = [] if options.get("native_tools", True) else [ToolsDescProvider(narrowed)]
        texts = [SystemPromptProvider(system), *described, SkillTextProvider(skill)]
        options["providers"] = [*texts, *options.get("providers", ())]
        return cls(StateHistoryProvider(field, since), tools=narrowed, **options)

    async def build(self, state: StateReader, *, pending: Iterable[str] = ()) -> BuiltContext:
        """Build the prompt of the next request.

        Args:
            state: the `StateManager`, or anything with its ``get``.
            pending: ids of calls that wait for an approval; they are left without a result.

        Returns:
            The prompt. If it has a ``summary``, append that to the history.

        Raises:
            ContextOverBudgetError: it does not fit even at its smallest.
            ContextError: the state field holds no messages, or a filter broke its contract.
        """
        history = self._history.history(state)
        conversation = Conversation.of(history, pending)
        available = self._available()
        prompt = (await self._draft(conversation, state, history)).fit(available)
        prompt, status = await self._summarised(prompt, conversation, available)
        self._size.forget_unused()
        self._clear.forget_unused()
        return self._built(prompt, status)

    def calibrate(self, built: BuiltContext, reported: int) -> None:
        """Learn from the input tokens that the provider reported for a prompt."""
        self.calibration.observe(round(built.tokens / built.report.factor), reported)

    def _available(self) -> int:
        return _UNLIMITED if self.budget is None else int(self.budget.available / self.calibration.factor)

    async def _draft(self, conversation: Conversation, state: StateReader, history: Sequence[Message]) -> Draft:
        segments = await self._segments(state, history)
        if conversation.lead:
            lead = tuple(conversation.lead)
            segments.append(Segment(name="system", messages=lead, stability=Stability.FIXED))
        if conversation.summary is not None:
            segments.append(summary_segment(conversation.summary))
        return Draft(
            segments=segments,
            groups=apply_filters(conversation.groups, self._filters),
            tools=tools_tokens(self._offered(), self._counter),
            size=self._size,
            clear=self._clear,
            keep_results=self._keep_results,
            low_water=self._low_water,
        )

    async def _segments(self, state: StateReader, history: Sequence[Message]) -> list[Segment]:
        segments: list[Segment] = []
        for provider in self._providers:
            given = provider.segments(state, history)
            segments.extend(await given if inspect.isawaitable(given) else given)
        return segments

    async def _summarised(
        self, prompt: Prompt, conversation: Conversation, available: int
    ) -> tuple[Prompt, SummaryStatus]:
        status: SummaryStatus = "none" if conversation.summary is None else "stored"
        if self.summariser is None or not prompt.history.dropped:
            return prompt, status
        if not self.summariser.ready:
            return prompt, "off"
        shortest = prompt.draft.fit(available, steady=False)
        earlier = [] if conversation.summary is None else [conversation.summary]
        text = await self.summariser.summarise([*earlier, *flatten(shortest.history.dropped)])
        if text is None:
            return prompt, "failed"
        return prompt.draft.with_summary(text, shortest).fit(available), "made"

    def _offered(self) -> ToolSet:
        return self._tools if self._native_tools else ToolSet()

    def _built(self, prompt: Prompt, status: SummaryStatus) -> BuiltContext:
        factor, draft = self.calibration.factor, prompt.draft
        made = next((it.messages[0] for it in draft.segments if it.name == "summary"), None)
        report = BuildReport(
            tokens={name: _scaled(tokens, factor) for name, tokens in prompt.tokens.items()},
            available=None if self.budget is None else self.budget.available,
            factor=factor,
            groups=len(draft.groups),
            dropped=len(prompt.history.dropped),
            cleared=prompt.history.cleared,
            omitted=tuple(segment.name for segment in draft.segments if segment not in prompt.segments),
            summary=status,
        )
        return BuiltContext(
            messages=prompt.messages,
            tools=self._offered(),
            tokens=_scaled(sum(prompt.tokens.values()), factor),
            report=report,
            summary=made if status == "made" else None,
        )


def _scaled(tokens: int, factor: float) -> int:
    return ceil(round(tokens * factor, 6))  # 6 places: a rounding error must not add a token

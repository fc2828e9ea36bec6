"""Laws of every prompt, whatever the history, the filters and the budget."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jianmu.errors import ContextOverBudgetError
from jianmu.memory.context import (
    BuiltContext,
    ClearToolResultsFilter,
    ContextBuilder,
    RoleFilter,
    Stability,
    TextProvider,
    TokenBudget,
    WindowFilter,
    flatten,
    group_messages,
    make_summary,
    repair,
)
from jianmu.messages import Message, ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence

SYSTEM = "You are kind."

ids = st.sampled_from(["a", "b", "c"])
words = st.text("x ", max_size=80)
anything = st.lists(
    st.one_of(
        words.map(Message.user),
        words.map(Message.assistant),
        st.lists(ids, min_size=1, max_size=3).map(
            lambda made: Message.assistant("", [ToolCall(id=call_id, name="find") for call_id in made])
        ),
        st.tuples(ids, words).map(lambda pair: Message.tool_result(*pair, name="find")),
        words.map(Message.system),
    ),
    max_size=40,
)
pending = st.lists(ids, max_size=2)
filters = st.lists(
    st.one_of(
        st.integers(1, 8).map(WindowFilter),
        st.integers(0, 3).map(ClearToolResultsFilter),
        st.sets(st.sampled_from(["user", "assistant", "tool", "system"]), max_size=2).map(RoleFilter),
        st.integers(0, 3).map(lambda step: lambda groups: [it for it in groups if it.index % 4 != step]),
    ),
    max_size=3,
)


class State:
    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages

    def get(self, field: str) -> Any:
        return self.messages


class Characters:
    def count(self, text: str) -> int:
        return len(text)


def builder(**options: Any) -> ContextBuilder:
    return ContextBuilder.for_react(SYSTEM, counter=Characters(), **options)


def build(made: ContextBuilder, history: list[Message], waiting: list[str]) -> BuiltContext:
    return asyncio.run(made.build(State(history), pending=waiting))


def assert_paired(messages: Sequence[Message], waiting: list[str]) -> None:
    """Each call is followed by its own result at once; only pending calls have none."""
    open_calls: Counter[str] = Counter()
    unanswered: Counter[str] = Counter()
    for message in messages:
        if message.role == "tool":
            assert open_calls[message.tool_call_id or ""] > 0, "a result without its call"
            open_calls[message.tool_call_id or ""] -= 1
        else:
            unanswered += open_calls
            open_calls = Counter(call.id for call in message.tool_calls)
    unanswered += open_calls
    assert unanswered <= Counter(waiting), "a call without its result"


def last_user(history: list[Message]) -> Message | None:
    return next((message for message in reversed(history) if message.role == "user"), None)


@given(anything, pending)
def test_repair_pairs_every_call_with_its_result(history: list[Message], waiting: list[str]) -> None:
    """R46: whatever is stored, the projection is one that providers take."""
    assert_paired(repair(history, waiting), waiting)


@given(anything, pending)
def test_repair_is_deterministic_and_idempotent(history: list[Message], waiting: list[str]) -> None:
    """R46: repairing twice is repairing once; nothing but tool results is added or left out."""
    before = list(history)
    once = repair(history, waiting)
    assert once == repair(history, waiting)
    assert repair(once, waiting) == once
    assert [it for it in once if it.role != "tool"] == [it for it in history if it.role != "tool"]
    assert history == before


@given(anything, pending)
def test_groups_are_the_repaired_history_cut_up(history: list[Message], waiting: list[str]) -> None:
    """R46: every group passes its own check, and together they are the repaired history."""
    groups = group_messages(history, waiting)
    for group in groups:
        group.check()
    assert flatten(groups) == repair(history, waiting)
    assert [group.index for group in groups] == sorted({group.index for group in groups})


@settings(max_examples=60)
@given(anything, pending, filters)
def test_every_filter_keeps_pairs_and_the_last_question(
    history: list[Message], waiting: list[str], chosen: list[Any]
) -> None:
    """R46: pairing, system prompt and last user group survive every filter, also a user's own."""
    built = build(builder(filters=chosen), history, waiting)
    assert_paired(built.messages, waiting)
    assert built.messages[0].text.startswith(SYSTEM)
    assert (question := last_user(history)) is None or question in built.messages


def smallest(whole: BuiltContext, waiting: list[str]) -> int:
    """The tokens of what must stay of a prompt: system, last user's message, newest group (a joint is 2 tokens)."""
    groups = group_messages(whole.messages[1:], waiting)
    must = [group for group in groups if group is groups[-1] or group.messages[0] is last_user(flatten(groups))]
    plain = ContextBuilder.for_react("", counter=Characters())
    joints = whole.messages[0].text.count("\n\n")
    return build(plain, [whole.messages[0], *flatten(must)], waiting).tokens + 2 * joints


@settings(max_examples=150)
@given(anything, pending, filters, st.integers(20, 1_500), st.floats(0.1, 1), st.integers(1, 3))
def test_a_budget_is_kept_or_refused(
    history: list[Message], waiting: list[str], chosen: list[Any], limit: int, low_water: float, keep: int
) -> None:
    """R46: within the budget with pairs, system prompt, last user group and newest group, or ContextOverBudgetError."""
    made = builder(
        filters=chosen,
        budget=TokenBudget(limit=limit, reserve=limit // 10),
        low_water=low_water,
        keep_results=keep,
        providers=[TextProvider("It is noon.", "clock", Stability.VOLATILE, priority=0)],
    )
    try:
        built = build(made, history, waiting)
    except ContextOverBudgetError:
        assert smallest(build(builder(filters=chosen), history, waiting), waiting) > limit - limit // 10
        return
    assert built.tokens == sum(built.report.tokens.values()) <= limit - limit // 10
    assert_paired(built.messages, waiting)
    assert built.messages[0].text.startswith(SYSTEM)
    assert (question := last_user(history)) is None or question in built.messages


@given(anything, pending, st.integers(200, 1_500))
def test_builds_are_deterministic(history: list[Message], waiting: list[str], limit: int) -> None:
    """R46: the same state gives the same prompt, in this builder and in a new one; the history stays as it is."""
    before = list(history)
    made = builder(budget=TokenBudget(limit=limit, reserve=0))
    try:
        first = build(made, history, waiting)
    except ContextOverBudgetError:
        with pytest.raises(ContextOverBudgetError):
            build(builder(budget=TokenBudget(limit=limit, reserve=0)), history, waiting)
        return
    with suppress(ContextOverBudgetError):
        build(made, history[: len(history) // 2], waiting)
    for other in (made, builder(budget=TokenBudget(limit=limit, reserve=0))):
        again = build(other, history, waiting)
        assert (again.messages, again.tokens, again.report) == (first.messages, first.tokens, first.report)
    assert history == before


@given(anything, st.integers(0, 45), st.integers(200, 1_500))
def test_a_summary_never_tears_or_hides_what_must_stay(history: list[Message], covers: int, limit: int) -> None:
    """R46: wherever a summary ends, pairs and the last user's message stay."""
    stored = [*history, make_summary("so far", covers)]
    made = builder(budget=TokenBudget(limit=limit, reserve=0), summarise=lambda messages: f"{len(messages)} before")
    try:
        built = build(made, stored, [])
    except ContextOverBudgetError:
        return
    assert built.tokens <= limit
    assert_paired(built.messages, [])
    assert built.messages[0].text.startswith(SYSTEM)
    assert (question := last_user(history)) is None or question in built.messages
    if built.summary is not None:
        try:
            stored_again = build(made, [*stored, built.summary], [])
        except ContextOverBudgetError:
            return
        assert stored_again.report.summary == "stored"
        assert stored_again.messages == built.messages


@settings(max_examples=60)
@given(anything, st.integers(100, 1_500), st.floats(0.3, 3))
def test_calibration_is_part_of_the_budget(history: list[Message], limit: int, factor: float) -> None:
    """R46: a provider that counts more leaves less room."""
    made = builder(budget=TokenBudget(limit=limit, reserve=0))
    made.calibration.observe(1_000, round(1_000 * factor))
    try:
        built = build(made, history, [])
    except ContextOverBudgetError:
        return
    assert built.tokens <= limit
    assert built.report.factor == made.calibration.factor

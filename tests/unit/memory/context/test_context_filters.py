"""Filters choose groups; they can tear nothing apart and never lose the last user's message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jianmu.errors import ConfigurationError, ContextError
from jianmu.memory.context import ClearToolResultsFilter, Group, RoleFilter, WindowFilter, group_messages
from jianmu.memory.context.filters import apply_filters
from jianmu.messages import Message, ToolCall

HISTORY = [
    Message.user("u0"),
    Message.assistant("", [ToolCall(id="a", name="find")]),
    Message.tool_result("a", "A" * 100),
    Message.assistant("a3"),
    Message.user("u4"),
    Message.assistant("", [ToolCall(id="b", name="find")]),
    Message.tool_result("b", "B" * 100),
    Message.assistant("", [ToolCall(id="c", name="find")]),
    Message.tool_result("c", "C" * 100),
]
GROUPS = group_messages(HISTORY)


def kept(*filters: Any) -> list[int]:
    return [group.index for group in apply_filters(GROUPS, filters)]


@pytest.mark.parametrize(
    ("last", "indexes"), [(1, [4, 7]), (2, [4, 5, 7]), (3, [4, 5, 7]), (4, [0, 3, 4, 5, 7]), (99, [0, 1, 3, 4, 5, 7])]
)
def test_a_window_keeps_the_newest_groups_and_the_question_they_answer(last: int, indexes: list[int]) -> None:
    """R46: windows count groups and begin with a user's message."""
    assert kept(WindowFilter(last)) == indexes


def test_only_old_results_are_cleared() -> None:
    """R46: the newest groups with calls keep their results."""
    cleared = apply_filters(GROUPS, [ClearToolResultsFilter(keep_last=1)])
    assert [group.results[0].text[:7] for group in cleared if group.results] == ["[result", "[result", "CCCCCCC"]
    assert [group.index for group in cleared] == [group.index for group in GROUPS]
    none = apply_filters(GROUPS, [ClearToolResultsFilter(keep_last=0)])
    assert all(group.results[0].text.startswith("[result") for group in none if group.results)


def test_a_role_is_dropped_with_everything_that_hangs_on_it() -> None:
    """R46: dropping tool results drops their calls."""
    assert kept(RoleFilter({"tool"})) == [0, 3, 4]
    assert kept(RoleFilter({"assistant"})) == [0, 4]


def test_the_last_users_message_is_put_back_in_its_place() -> None:
    """R46: no filter takes the last user group away."""
    assert kept(RoleFilter({"user"})) == [1, 3, 4, 5, 7]
    assert kept(lambda groups: []) == [4]


def test_filters_are_applied_in_order_and_any_callable_is_one() -> None:
    assert kept(lambda groups: groups[1:], RoleFilter({"tool"})) == [3, 4]


@pytest.mark.parametrize(
    "broken",
    [
        lambda groups: list(reversed(groups)),
        lambda groups: [groups[0], groups[0]],
        lambda groups: [Group((Message.user("new"),), 99)],
        lambda groups: [replace(groups[1], messages=(*groups[1].messages, Message.user("glued on")))],
        lambda groups: [replace(groups[1], messages=groups[1].results)],
    ],
    ids=["turned around", "twice", "invented", "glued", "torn"],
)
def test_a_filter_that_does_more_than_choose_is_an_error(broken: Any) -> None:
    """R46: custom filters cannot break the pairing of calls and results."""
    with pytest.raises(ContextError):
        apply_filters(GROUPS, [broken])


def test_numbers_out_of_range_are_errors() -> None:
    with pytest.raises(ConfigurationError, match="last is 0"):
        WindowFilter(0)
    with pytest.raises(ConfigurationError, match="keep_last is -1"):
        ClearToolResultsFilter(-1)

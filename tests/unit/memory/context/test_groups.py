"""A call and its results are one group, and a broken history is mended."""

from __future__ import annotations

import pytest

from jianmu.errors import ContextError
from jianmu.memory.context import Group, flatten, group_messages, repair
from jianmu.messages import Message, ToolCall


def calls(*ids: str) -> Message:
    return Message.assistant("", [ToolCall(id=call_id, name="find") for call_id in ids])


def result(call_id: str, text: str = "found") -> Message:
    return Message.tool_result(call_id, text, name="find")


def texts(messages: list[Message]) -> list[str]:
    return [
        f"interrupted {m.tool_call_id}" if m.metadata.get("error_type") == "interrupted" else m.text for m in messages
    ]


def test_a_message_with_calls_and_its_results_are_one_group() -> None:
    """R46: the atomic unit that windows, filters and budgets work on."""
    history = [Message.user("q"), calls("a", "b"), result("a"), result("b"), Message.assistant("done")]
    groups = group_messages(history)
    assert [(group.index, group.role, len(group.messages)) for group in groups] == [
        (0, "user", 1),
        (1, "assistant", 3),
        (4, "assistant", 1),
    ]
    assert flatten(groups) == history
    assert groups[1].results == (history[2], history[3])


def test_results_follow_their_call_in_the_order_of_the_calls() -> None:
    history = [calls("a", "b"), Message.user("meanwhile"), result("b", "B"), result("a", "A")]
    assert texts(repair(history)) == ["", "A", "B", "meanwhile"]


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    """R46: repair marks what was interrupted."""
    mended = repair([calls("a", "b"), result("b", "B"), Message.user("go on")])
    assert texts(mended) == ["", "interrupted a", "B", "go on"]
    assert mended[1].metadata["is_error"] is True
    assert '"type":"interrupted"' in mended[1].text


def test_a_result_without_a_call_is_left_out() -> None:
    """R46: also one that comes before its call, and a second one of the same call."""
    history = [result("a", "early"), calls("a"), result("a", "A"), result("a", "again"), result("z", "stray")]
    assert texts(repair(history)) == ["", "A"]


def test_an_id_that_is_used_again_belongs_to_the_latest_open_call() -> None:
    """R46: ids are not unique for ever; results are matched by order of occurrence."""
    history = [calls("x"), result("x", "1"), calls("x"), calls("x"), result("x", "3"), result("x", "2")]
    assert texts(repair(history)) == ["", "1", "", "2", "", "3"]


def test_one_message_may_use_an_id_twice() -> None:
    assert texts(repair([calls("x", "x"), result("x", "1"), result("x", "2")])) == ["", "1", "2"]


def test_calls_that_wait_for_approval_are_left_alone() -> None:
    """R48: the last open call of a pending id gets no result; an older one of the same id was interrupted."""
    history = [calls("x"), calls("x", "y"), result("y", "Y")]
    assert texts(repair(history, pending=["x"])) == ["", "interrupted x", "", "Y"]
    assert texts(repair(history, pending=["x", "x"])) == ["", "", "Y"]
    assert texts(repair(history, pending=["y"])) == ["", "interrupted x", "", "interrupted x", "Y"]


def test_the_stored_history_is_not_changed() -> None:
    """R45: repair works on a projection."""
    history = [calls("a"), result("z")]
    before = list(history)
    repair(history)
    assert history == before


def test_cleared_results_leave_a_notice_and_keep_the_pair() -> None:
    """R46: old tool results are replaced, short ones stay."""
    [group] = group_messages([calls("a", "b"), result("a", "x" * 100), result("b", "short")])
    cleared = group.with_results_cleared()
    assert [message.text for message in cleared.results] == ["[result cleared to save space: 100 characters]", "short"]
    assert [message.tool_call_id for message in cleared.results] == ["a", "b"]
    assert cleared.with_results_cleared() is cleared
    assert group.results[0].text == "x" * 100


def test_results_of_blocks_are_cleared_too() -> None:
    [group] = group_messages([calls("a"), Message.tool_result("a", [{"type": "image", "data": "..."}])])
    assert group.with_results_cleared().results[0].content == "[result cleared to save space: 0 characters]"


@pytest.mark.parametrize(
    "messages",
    [
        (),
        (result("a"),),
        (Message.user("u"), Message.user("v")),
        (Message.user("u"), result("a")),
        (calls("a"), result("b")),
    ],
    ids=["nothing", "a result", "two messages", "a result of no call", "a result of another call"],
)
def test_a_torn_group_does_not_pass_the_check(messages: tuple[Message, ...]) -> None:
    with pytest.raises(ContextError, match="group 3"):
        Group(messages, 3).check()

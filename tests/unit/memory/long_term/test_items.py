"""What every backend does alike."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from jianmu.memory.long_term.items import check_limit, format_items, record_result, text_of
from jianmu.messages import Message, ToolCall

ITEM: Any = {"id": "m1", "content": "likes tea", "metadata": {}, "score": None}


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ("tea", "tea"),
        (Message.user("tea"), "tea"),
        (Message.user([{"type": "text", "text": "tea"}, {"type": "image", "url": "x"}]), "tea"),
        ([Message.assistant("tea")], "tea"),
        ((Message.user("tea?"), Message.assistant("green")), "user: tea?\nassistant: green"),
        ([Message.user("tea?"), Message.assistant(tool_calls=[ToolCall(name="x")])], "tea?"),
    ],
    ids=["text", "message", "blocks", "one", "talk", "call"],
)
def test_every_input_becomes_text(inputs: Any, text: str) -> None:
    """R31: LongTermMemoryInput = str | Message | Sequence[Message]."""
    assert text_of(inputs) == text


@pytest.mark.parametrize("inputs", [["tea"], [Message.user("x"), {"role": "user"}], 7, None], ids=str)
def test_other_inputs_are_refused(inputs: Any) -> None:
    with pytest.raises(TypeError):
        text_of(inputs)


def test_lines_show_what_there_is_to_show() -> None:
    """R32: numbered lines with id, score and metadata."""
    when = datetime(2026, 5, 1, tzinfo=UTC)
    items: Any = [
        {**ITEM, "score": 0.25, "metadata": {"标": "茶", "when": when}},
        ITEM,
        {**ITEM, "id": None},
    ]
    assert format_items(items).splitlines() == [
        '1. likes tea (id: m1, score: 0.250, metadata: {"标": "茶", "when": "2026-05-01 00:00:00+00:00"})',
        "2. likes tea (id: m1)",
        "3. likes tea",
    ]


def test_a_result_tells_stored_nothing_and_pending_apart() -> None:
    assert record_result([ITEM], key="k") == {
        "id": "m1",
        "key": "k",
        "status": "stored",
        "results": [ITEM],
        "event_id": None,
    }
    assert record_result([])["status"] == "nothing"
    assert record_result([], event_id="e")["status"] == "pending"


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=f"limit is {limit}"):
        check_limit(limit)

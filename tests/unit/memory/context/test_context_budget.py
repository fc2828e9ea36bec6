"""Counting tokens, and how many there may be."""

from __future__ import annotations

from typing import Any

import pytest

from jianmu.errors import ConfigurationError, MissingExtraError
from jianmu.memory.context import Calibration, EstimateTokenCounter, TiktokenCounter, TokenBudget, TokenCounter
from jianmu.memory.context.budget import message_tokens, tools_tokens
from jianmu.memory.context.memo import Memo
from jianmu.messages import Message, ToolCall
from jianmu.tools import tool


class Characters:
    def count(self, text: str) -> int:
        return len(text)


@tool
def find(query: str) -> str:
    """Find."""
    return query


def test_the_estimate_weighs_chinese_characters() -> None:
    """R46: the default counter needs no package and knows that a Chinese character is about a token."""
    counter = EstimateTokenCounter()
    assert isinstance(counter, TokenCounter)
    assert counter.count("用户喜欢喝茶") == 6
    assert counter.count("The user likes tea.") == 5
    assert counter.count("") == 0


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (Message.user("12345"), 4 + 5),
        (Message.user("12345", name="Ada"), 4 + 5 + 3),
        (Message.assistant("", [ToolCall(name="find", arguments={"q": "x"})]), 4 + 8 + 4 + len('{"q":"x"}')),
        (Message.assistant("", [ToolCall(name="find", raw_arguments="{q: x")]), 4 + 8 + 4 + 5),
        (Message.user([{"type": "text", "text": "12345"}, {"type": "image", "data": "x" * 9_999}]), 4 + 5 + 1_000),
        (Message.user([{"type": "thinking", "of": 1}]), 4 + len('{"of":1,"type":"thinking"}')),
        (Message.user("12345", metadata={"hidden": "x" * 99}), 4 + 5),
    ],
    ids=["text", "name", "call", "raw call", "blocks", "unknown block", "metadata"],
)
def test_all_that_a_model_reads_of_a_message_is_counted(message: Message, tokens: int) -> None:
    """R46: call arguments count, metadata does not."""
    assert message_tokens(message, Characters()) == tokens


def test_tool_schemas_are_counted() -> None:
    """R46: the budget counts tool schemas."""
    assert tools_tokens([find, find.renamed("seek")], Characters()) == 2 * tools_tokens([find], Characters()) > 100
    assert tools_tokens([], Characters()) == 0


@pytest.mark.parametrize(
    ("budget", "available"),
    [
        (TokenBudget(limit=1_000), 875),
        (TokenBudget(limit=200_000), 200_000 - 8_192),
        (TokenBudget(limit=1_000, reserve=0), 1_000),
        (TokenBudget(limit=1_000, reserve=999), 1),
    ],
)
def test_a_reserve_is_kept_for_the_answer(budget: TokenBudget, available: int) -> None:
    """R46: a reserve for the answer."""
    assert budget.available == available


@pytest.mark.parametrize(
    "numbers", [{"limit": 0}, {"limit": -5}, {"limit": 10, "reserve": 10}, {"limit": 10, "reserve": -2}]
)
def test_a_budget_without_a_prompt_is_an_error(numbers: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=str(numbers["limit"])):
        TokenBudget(**numbers)


def test_calibration_learns_from_reported_figures() -> None:
    """R46: the first report counts alone, later ones move it, nonsense does not."""
    calibration = Calibration(weight=0.5)
    assert calibration.factor == 1
    calibration.observe(100, 150)
    assert calibration.factor == 1.5
    calibration.observe(100, 250)
    assert calibration.factor == 2.0
    for counted, reported in ((0, 5), (5, 0), (-1, 5)):
        calibration.observe(counted, reported)
    assert calibration.factor == 2.0
    assert Calibration(1.3).factor == 1.3


@pytest.mark.parametrize(("reported", "factor"), [(1_000_000, 4.0), (1, 0.25)])
def test_calibration_believes_no_wild_figure(reported: int, factor: float) -> None:
    calibration = Calibration()
    calibration.observe(1_000, reported)
    assert calibration.factor == factor


def test_tiktoken_is_asked_for_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """R4: without the package the error names the extra."""
    monkeypatch.setitem(__import__("sys").modules, "tiktoken", None)
    with pytest.raises(MissingExtraError, match=r"jianmu\[tiktoken\]"):
        TiktokenCounter()


def test_tiktoken_counts_with_any_vocabulary() -> None:
    """R46: special tokens in a text are counted as the text they are."""
    tiktoken: Any = pytest.importorskip("tiktoken", reason="the extra 'tiktoken' is not installed")
    ranks = {bytes([value]): value for value in range(256)} | {b"ab": 256}
    tiny = tiktoken.Encoding("tiny", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={"<|end|>": 257})
    counter = TiktokenCounter(tiny)
    assert [counter.count(text) for text in ("", "abab", "a b", "<|end|>", "茶")] == [0, 2, 3, 7, 3]


def test_what_was_worked_out_is_remembered_while_it_is_used() -> None:
    asked: list[str] = []

    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    memo, one, two = Memo(length), "x" * 3, "y" * 4
    assert [memo(one), memo(one), memo(two)] == [3, 3, 4]
    memo.forget_unused()
    assert memo(one) == 3
    memo.forget_unused()
    assert [memo(one), memo(two)] == [3, 4]
    assert asked == [one, two, two]

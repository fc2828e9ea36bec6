"""Results as text for a model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel

from jianmu.tools import canonical_json, error_text, result_text
from jianmu.tools.results import cut


class Mood(Enum):
    GOOD = "good"


class Point(BaseModel):
    y: int
    x: Any


@dataclass
class Pair:
    b: int
    a: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is: 上海\ud800", "as it is: 上海\ud800"),
        (None, "null"),
        (True, "true"),
        ({"b": 1, "a": [1.5, None]}, '{"a":[1.5,null],"b":1}'),
        (Point(y=1, x=Point(y=2, x=Mood.GOOD)), '{"x":{"x":"good","y":2},"y":1}'),
        ([Pair(1, 2)], '[{"a":2,"b":1}]'),
        ({3: date(2026, 1, 2)}, '{"3":"2026-01-02"}'),
        ({"c", "a", "b"}, '["a","b","c"]'),
        ({"n": Decimal("1.50")}, '{"n":"1.50"}'),
        (2**70, str(2**70)),
        ({"big": 2**70, "a": Point(y=1, x=2)}, f'{{"a":{{"x":2,"y":1}},"big":{2**70}}}'),
        (["\ud800"], '["\\ud800"]'),
        (float("nan"), "null"),
        ([float("inf"), 2**70], f"[null,{2**70}]"),
        (b"raw", '"raw"'),
        (ValueError("no"), '"no"'),
    ],
)
def test_text_stays_and_everything_else_is_canonical_json(value: Any, text: str) -> None:
    """R47: str as it is, else JSON with sorted keys; models are dumped."""
    assert result_text(value) == text


def test_equal_values_give_equal_text() -> None:
    assert canonical_json({"a": 1, "b": 2}) == canonical_json({"b": 2, "a": 1})


def test_an_error_is_json_with_its_details() -> None:
    assert json.loads(error_text("timeout", "too slow", seconds=3)) == {
        "error": {"type": "timeout", "message": "too slow", "seconds": 3}
    }


def test_text_within_the_limit_is_not_cut() -> None:
    assert [cut("abc", 3), cut("abc", None)] == ["abc", "abc"]
    assert cut("abcd", 3) == "abc\n[cut: the first 3 of 4 characters]"

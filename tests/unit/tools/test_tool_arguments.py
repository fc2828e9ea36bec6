"""Arguments are checked against the part of JSON Schema that tools use."""

from __future__ import annotations

from typing import Any

import pytest

from jianmu.errors import ToolSchemaError
from jianmu.tools.arguments import drop_unset, find_problems

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
        "friend": {"$ref": "#"},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def messages(value: Any, schema: Any) -> list[tuple[str, str]]:
    return [(problem["path"], problem["message"]) for problem in find_problems(value, schema)]


def test_every_problem_is_listed_with_path_message_and_value() -> None:
    """R42: path, message and received, for each problem at once."""
    wrong = {"age": -1, "tags": ["a", 2], "friend": {"name": ""}, "extra": True}
    assert find_problems(wrong, PERSON) == [
        {"path": "name", "message": "is required", "received": None},
        {"path": "age", "message": "must be at least 0", "received": -1},
        {"path": "tags[1]", "message": "must be string", "received": 2},
        {"path": "friend.name", "message": "must have at least 1 characters", "received": ""},
        {"path": "extra", "message": "is not known; expected name, age, tags, friend", "received": True},
    ]


def test_the_whole_value_is_called_arguments() -> None:
    assert messages("text", {"type": "object"}) == [("arguments", "must be object")]


@pytest.mark.parametrize(
    ("value", "schema", "message"),
    [
        (True, {"type": "integer"}, "must be integer"),
        (1.0, {"type": "integer"}, "must be integer"),
        (True, {"type": "number"}, "must be number"),
        (1, {"type": ["string", "null"]}, "must be string or null"),
        ("c", {"enum": ["a", "b"]}, "must be one of ['a', 'b']"),
        (True, {"enum": [1]}, "must be one of [1]"),
        ([True], {"const": [1]}, "must be [1]"),
        ({"a": True}, {"const": {"a": 1}}, "must be {'a': 1}"),
        (5, {"exclusiveMaximum": 5}, "must be less than 5"),
        (5, {"exclusiveMinimum": 5}, "must be more than 5"),
        (6, {"maximum": 5}, "must be at most 5"),
        (7, {"multipleOf": 2}, "must be a multiple of 2"),
        (0.35, {"multipleOf": 0.1}, "must be a multiple of 0.1"),
        (float("nan"), {"minimum": 0}, "must be at least 0"),
        ("abc", {"maxLength": 2}, "must have at most 2 characters"),
        ("abc", {"pattern": "^b"}, "must match '^b'"),
        ([1, 1], {"uniqueItems": True}, "must not hold an item twice"),
        ([1], {"minItems": 2}, "must have at least 2 items"),
        ({}, {"minProperties": 1}, "must have at least 1 properties"),
        (1, {"anyOf": [{"type": "string"}, {"type": "null"}]}, "must be string or null"),
        (-1, {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]}, "must be at least 0"),
        (-1, {"anyOf": [{"minimum": 0}, {"const": 5}]}, "fits none of the 2 alternatives"),
        (1, {"oneOf": [{"type": "integer"}, {"minimum": 0}]}, "fits more than one of the alternatives"),
        (1, {"oneOf": [{"type": "string"}]}, "must be string"),
        (1, {"allOf": [{"type": "integer"}, {"minimum": 2}]}, "must be at least 2"),
        ([1, 2], {"prefixItems": [{"type": "integer"}], "items": False}, "is not allowed"),
        (1, False, "is not allowed"),
    ],
)
def test_a_misfit_is_told_in_words(value: Any, schema: Any, message: str) -> None:
    assert [problem["message"] for problem in find_problems(value, schema)] == [message]


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (0.3, {"multipleOf": 0.1}),
        (10**30, {"type": "integer", "multipleOf": 10}),
        (1, {"enum": [1.0]}),
        ([1, True], {"uniqueItems": True}),
        ({"x": 1}, {"additionalProperties": {"type": "integer"}}),
        ("anything", {"type": "unheard-of"}),
        (None, True),
        ({"a": {"b": [1]}}, {"$defs": {"a~/%": {"type": "object"}}, "$ref": "#/$defs/a~0~1%"}),
    ],
)
def test_what_fits_has_no_problems(value: Any, schema: Any) -> None:
    assert find_problems(value, schema) == []


@pytest.mark.parametrize("reference", ["https://example.com/schema", "#/$defs/none", "#/$defs/loop"])
def test_a_reference_that_leads_nowhere_is_an_error_of_the_schema(reference: str) -> None:
    schema = {"$defs": {"loop": {"$ref": "#/$defs/loop"}}, "properties": {"a": {"$ref": reference}}}
    with pytest.raises(ToolSchemaError, match=r"\$ref"):
        find_problems({"a": 1}, schema)


def test_null_for_an_optional_property_counts_as_not_given() -> None:
    """R42: strict providers make models send null; it is dropped at any depth, but never where null has a meaning."""
    schema = {
        "$defs": {"part": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "properties": {
            "must": {"type": "string"},
            "maybe": {"type": "string"},
            "nullable": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}},
            "either": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/part"}]},
        },
        "required": ["must"],
    }
    given = {
        "must": None,
        "maybe": None,
        "nullable": None,
        "parts": [{"n": None}, {"n": 1}],
        "either": {"n": None},
        "unknown": None,
    }
    assert drop_unset(given, schema) == {
        "must": None,
        "nullable": None,
        "parts": [{}, {"n": 1}],
        "either": {},
        "unknown": None,
    }
    assert given["maybe"] is None

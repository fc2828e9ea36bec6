"""One schema, and the forms in which providers want it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field

from jianmu.errors import ToolSchemaError
from jianmu.tools import Tool, ToolSet, canonical_json, to_anthropic, to_gemini, to_mcp, to_openai, tool


class Item(BaseModel):
    """A thing."""

    name: str
    count: int = Field(default=1, ge=1)


class Tree(BaseModel):
    label: str
    children: list["Tree"] = []


@tool
def order(
    item: Annotated[Item, Field(description="what to order")],
    speed: Literal["slow", "fast"] = "slow",
    rating: Literal[1, 2, 3] | None = None,
    notes: list[str] | None = None,
    code: Annotated[str, Field(pattern="^[A-Z]+$", max_length=5)] = "A",
    size: int | str = 1,
) -> Item:
    """Order a thing."""
    return item


@tool(effect="write", idempotent=True)
def ping() -> None:
    """Do nothing."""


@tool
def anything(data: dict[str, int]) -> None:
    """Take free keys."""


@tool
def untyped(data: Any) -> None:
    """Take whatever."""


@tool
def grow(tree: Tree) -> None:
    """Grow."""


def test_openai_gets_the_schema_as_it_is() -> None:
    """R47: OpenAI's chat form, not strict."""
    assert to_openai([ping]) == [
        {
            "type": "function",
            "function": {
                "name": "ping",
                "description": "Do nothing.",
                "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
            },
        }
    ]
    assert to_openai([order])[0]["function"]["parameters"] == order.input_schema


def test_anthropic_and_mcp_get_it_under_their_names() -> None:
    """R47: Anthropic and MCP forms."""
    assert to_anthropic([order]) == [
        {"name": "order", "description": "Order a thing.", "input_schema": order.input_schema}
    ]
    [described] = to_mcp([order])
    assert (described["inputSchema"], described["outputSchema"]) == (order.input_schema, order.output_schema)
    assert described["annotations"] == {"readOnlyHint": True, "idempotentHint": False}
    assert to_mcp([ping])[0]["annotations"] == {"readOnlyHint": False, "idempotentHint": True}
    assert "outputSchema" not in to_mcp([ping])[0]


def test_strict_requires_everything_and_makes_optional_nullable() -> None:
    """R47: OpenAI's strict form keeps to what strict mode knows."""
    function = to_openai([order], strict=True)[0]["function"]
    assert function["strict"] is True
    properties = function["parameters"]["properties"]
    assert function["parameters"]["required"] == list(order.input_schema["properties"])
    assert properties["item"] == {
        "type": "object",
        "description": "what to order",
        "properties": {"name": {"type": "string"}, "count": {"anyOf": [{"type": "integer", "minimum": 1}, NULL]}},
        "required": ["name", "count"],
        "additionalProperties": False,
    }
    assert properties["speed"] == {"anyOf": [{"enum": ["slow", "fast"], "type": "string"}, NULL]}
    assert properties["rating"] == {"anyOf": [{"enum": [1, 2, 3], "type": "integer"}, NULL]}
    assert properties["notes"] == {"anyOf": [{"items": {"type": "string"}, "type": "array"}, NULL]}
    assert properties["code"] == {"anyOf": [{"type": "string"}, NULL]}
    assert properties["size"] == {"anyOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, NULL]}


NULL = {"type": "null"}


def strict_faults(schema: Any, path: str = "") -> list[str]:
    """List what OpenAI's strict mode documents as refused."""
    known = {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "anyOf",
        "enum",
        "const",
        "$ref",
        "$defs",
    }
    known |= {"description", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    known |= {"minItems", "maxItems"}
    faults = [f"{path}: {keyword}" for keyword in schema.keys() - known]
    if "$ref" in schema and len(schema) > 1:
        faults.append(f"{path}: $ref with neighbours")
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            faults.append(f"{path}: open")
        if schema.get("required") != list(schema.get("properties", {})):
            faults.append(f"{path}: optional")
    for name, part in [*schema.get("properties", {}).items(), *schema.get("$defs", {}).items()]:
        faults += strict_faults(part, f"{path}/{name}")
    for part in [*schema.get("anyOf", []), *([schema["items"]] if "items" in schema else [])]:
        faults += strict_faults(part, f"{path}/-")
    return faults


@pytest.mark.parametrize("made", [order, ping, grow], ids=lambda made: made.name)
def test_strict_schemas_hold_nothing_strict_mode_refuses(made: Tool) -> None:
    """R47: references, nested models and recursion included."""
    schema = to_openai([made], strict=True)[0]["function"]["parameters"]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert strict_faults(schema) == []


async def test_what_a_strict_model_sends_is_taken() -> None:
    """R47: with a null for everything optional, the defaults apply."""
    sent = {"item": {"name": "tea", "count": None}, **dict.fromkeys(["speed", "rating", "notes", "code", "size"])}
    schema = to_openai([order], strict=True)[0]["function"]["parameters"]
    jsonschema.validate(sent, schema)
    assert await order.invoke(sent) == Item(name="tea", count=1)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (anything, r"'anything', arguments\.data: OpenAI's strict mode needs every property to be named"),
        (untyped, r"'untyped', arguments\.data: OpenAI's strict mode needs a type"),
    ],
    ids=["free keys", "no type"],
)
def test_what_strict_mode_cannot_say_is_an_error(made: Tool, says: str) -> None:
    with pytest.raises(ToolSchemaError, match=says):
        to_openai([made], strict=True)


def test_gemini_gets_its_part_of_openapi() -> None:
    """R47: references written out, null as nullable, text enums only, unknown keywords left out."""
    parameters = to_gemini([order])[0]["parameters"]
    assert parameters == {
        "type": "object",
        "required": ["item"],
        "properties": {
            "item": {
                "type": "object",
                "description": "what to order",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
            },
            "speed": {"type": "string", "enum": ["slow", "fast"]},
            "rating": {"type": "integer", "description": "One of 1, 2, 3.", "nullable": True},
            "notes": {"type": "array", "items": {"type": "string"}, "nullable": True},
            "code": {"type": "string", "pattern": "^[A-Z]+$", "maxLength": 5},
            "size": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        },
    }


def test_gemini_takes_no_object_without_properties() -> None:
    assert to_gemini([ping]) == [{"name": "ping", "description": "Do nothing."}]


def test_gemini_cannot_be_told_what_refers_to_itself() -> None:
    with pytest.raises(ToolSchemaError, match="refers to itself"):
        to_gemini([grow])


def test_gemini_forms_of_rarer_schemas() -> None:
    class Rare(Tool):
        name = "rare"
        input_schema = {  # noqa: RUF012
            "type": "object",
            "properties": {
                "either": {"type": ["string", "null"]},
                "fixed": {"const": "x", "type": "string"},
                "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
                "when": {"type": "string", "format": "date-time"},
                "open": True,
            },
        }

        def run(self, **arguments: Any) -> None: ...

    assert to_gemini([Rare()])[0]["parameters"]["properties"] == {
        "either": {"type": "string", "nullable": True},
        "fixed": {"type": "string", "enum": ["x"]},
        "pair": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
        "when": {"type": "string", "format": "date-time"},
        "open": {},
    }


@pytest.mark.parametrize("form", [to_openai, to_anthropic, to_gemini, to_mcp])
def test_tools_come_in_the_order_of_their_names(form: Any) -> None:
    """R47: sorted, so that the same set is the same request."""
    texts = {canonical_json(form(tools)) for tools in ([order, ping], [ping, order], ToolSet([ping, order]))}
    assert len(texts) == 1


def test_another_process_describes_them_alike() -> None:
    """R47: descriptions do not depend on the hash seed, so prompt caches hold across restarts."""
    program = (
        "import json\n"
        "from jianmu.tools import to_openai, tool\n"
        "@tool\n"
        "def pick(of: set[str] = {'a', 'b', 'c', 'd', 'e'}, kind: str | int | None = None) -> None:\n"
        "    'Pick.'\n"
        "print(json.dumps(to_openai([pick])))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1

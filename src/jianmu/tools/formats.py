"""Tools as each provider wants them described.

``Tool.input_schema`` is the one description of a tool's arguments; everything here is made from it. Tools come in the
order of their names, so that the same set always gives the same request and prompt caches hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jianmu.errors import ToolSchemaError
from jianmu.tools.arguments import Schema, find_problems, is_object, resolve
from jianmu.tools.results import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jianmu.tools.base import Tool


def to_openai(tools: Iterable[Tool], *, strict: bool = False) -> list[dict[str, Any]]:
    """Describe tools for OpenAI's chat completions and everything that speaks like it.

    Args:
        tools: any iterable; the result is sorted by name.
        strict: hold the model to the schema. Every property is then required; the model sends null for an optional one
            it does not want to give, which `Tool.validate` takes as not given. Keywords that strict mode does not know
            are left out; the tool checks them itself.

    Raises:
        ToolSchemaError: strict mode cannot express a schema, such as an object with free keys; says which part.
    """
    return [{"type": "function", "function": _openai_function(tool, strict)} for tool in _sorted(tools)]


def to_anthropic(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """Describe tools for Anthropic's messages API, sorted by name."""
    return [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in _sorted(tools)
    ]


def to_gemini(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """Describe tools as Gemini's function declarations, sorted by name.

    Gemini knows a part of OpenAPI's schema: references are written out, null becomes ``nullable``, keywords it does not
    know are left out; the tool checks them itself.

    Raises:
        ToolSchemaError: a schema refers to itself, which cannot be written out.
    """
    return [_gemini_function(tool) for tool in _sorted(tools)]


def to_mcp(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """Describe tools as the Model Context Protocol lists them, sorted by name."""
    return [_mcp_tool(tool) for tool in _sorted(tools)]


def _sorted(tools: Iterable[Tool]) -> list[Tool]:
    return sorted(tools, key=lambda tool: tool.name)


def _openai_function(tool: Tool, strict: bool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    if strict:
        function |= {"parameters": _Strict(tool).schema(), "strict": True}
    return function


def _gemini_function(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if tool.input_schema.get("properties"):  # Gemini refuses an object without properties
        function["parameters"] = _Gemini(tool).schema()
    return function


def _mcp_tool(tool: Tool) -> dict[str, Any]:
    hints = {"readOnlyHint": tool.effect == "read", "idempotentHint": tool.idempotent}
    described: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "annotations": hints,
    }
    if tool.output_schema is not None and tool.output_schema.get("type") == "object":
        described["outputSchema"] = tool.output_schema
    return described


def _alternatives(schema: Schema) -> list[Any]:
    return schema.get("anyOf") or schema.get("oneOf") or []


def _description(schema: Schema) -> Schema:
    return {"description": schema["description"]} if "description" in schema else {}


class _Strict:
    """Rewrites one tool's schema for OpenAI's strict mode."""

    KEPT = frozenset((
        "type", "description", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "minItems", "maxItems",
    ))  # fmt: skip
    FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.root = tool.input_schema

    def schema(self) -> Schema:
        made = self.rewritten({"additionalProperties": False, **self.root}, "arguments")
        if definitions := self.root.get("$defs"):
            made["$defs"] = {name: self.rewritten(part, f"$defs.{name}") for name, part in definitions.items()}
        return made

    def rewritten(self, schema: Any, path: str) -> Schema:
        if not is_object(schema) or not schema.keys() & {"type", "anyOf", "oneOf", "enum", "const", "$ref"}:
            raise self._error(path, "a type")
        if "$ref" in schema:
            return self._reference(schema, path)
        made = {key: value for key, value in schema.items() if key in self.KEPT}
        if schema.get("format") in self.FORMATS:
            made["format"] = schema["format"]
        if alternatives := _alternatives(schema):
            made["anyOf"] = [self.rewritten(part, path) for part in alternatives]
        if schema.get("type") == "object":
            made |= self._object(schema, path)
        if schema.get("type") == "array":
            made["items"] = self.rewritten(schema.get("items"), f"{path}[]")
        return made

    def _reference(self, schema: Schema, path: str) -> Schema:
        """Keep a bare reference; write out one that has a description beside it, which strict mode refuses."""
        if "description" not in schema:
            return {"$ref": schema["$ref"]}
        target = self.rewritten(resolve(schema, self.root), path)
        return {**target, "description": schema["description"]}

    def _object(self, schema: Schema, path: str) -> Schema:
        properties: dict[str, Any] = schema.get("properties", {})
        if schema.get("additionalProperties", not properties) not in (False, None) or "patternProperties" in schema:
            raise self._error(path, "every property to be named")
        required = schema.get("required", ())
        parts = {name: self.rewritten(part, f"{path}.{name}") for name, part in properties.items()}
        return {
            "properties": {
                name: part if name in required else self._nullable(part, properties[name])
                for name, part in parts.items()
            },
            "required": list(properties),
            "additionalProperties": False,
        }

    def _nullable(self, rewritten: Schema, original: Any) -> Schema:
        if not find_problems(None, original, root=self.root):
            return rewritten
        bare = {key: value for key, value in rewritten.items() if key != "description"}
        return {"anyOf": [bare, {"type": "null"}], **_description(rewritten)}

    def _error(self, path: str, wanted: str) -> ToolSchemaError:
        return ToolSchemaError(
            f"tool {self.tool.name!r}, {path}: OpenAI's strict mode needs {wanted}; use strict=False"
        )


class _Gemini:
    """Rewrites one tool's schema for Gemini, written out without references."""

    KEPT = frozenset((
        "type", "description", "required", "minItems", "maxItems", "minLength", "maxLength", "minProperties",
        "maxProperties", "pattern", "minimum", "maximum",
    ))  # fmt: skip
    FORMATS = frozenset(("date-time", "float", "double", "int32", "int64"))

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.root = tool.input_schema

    def schema(self) -> Schema:
        return self.rewritten(self.root, ())

    def rewritten(self, schema: Any, trail: tuple[str, ...]) -> Schema:
        if not is_object(schema):
            return {}
        if "$ref" in schema:
            return self._written_out(schema, trail)
        if isinstance(schema.get("type"), list):
            schema = {**schema, "anyOf": [{"type": name} for name in schema["type"]]}
            del schema["type"]
        made = {key: value for key, value in schema.items() if key in self.KEPT}
        if schema.get("format") in self.FORMATS:
            made["format"] = schema["format"]
        return made | self._choices(schema) | self._union(schema, trail) | self._parts(schema, trail)

    def _written_out(self, schema: Schema, trail: tuple[str, ...]) -> Schema:
        reference = schema["$ref"]
        if reference in trail:
            raise ToolSchemaError(f"tool {self.tool.name!r}: {reference} refers to itself; Gemini cannot be told that")
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return self.rewritten({**resolve({"$ref": reference}, self.root), **beside}, (*trail, reference))

    def _choices(self, schema: Schema) -> Schema:
        choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
        if not choices:
            return {}
        if all(isinstance(choice, str) for choice in choices):
            return {"enum": choices}
        note = f"One of {', '.join(map(canonical_json, choices))}."  # Gemini knows text choices only
        return {"description": f"{schema.get('description', '')} {note}".strip()}

    def _union(self, schema: Schema, trail: tuple[str, ...]) -> Schema:
        alternatives = _alternatives(schema)
        parts = [self.rewritten(part, trail) for part in alternatives if part != {"type": "null"}]
        nullable: Schema = {"nullable": True} if len(parts) < len(alternatives) else {}
        if len(parts) == 1:
            return {
                **parts[0],
                **nullable,
                **({"description": schema["description"]} if "description" in schema else {}),
            }
        return {"anyOf": parts, **nullable} if parts else nullable

    def _parts(self, schema: Schema, trail: tuple[str, ...]) -> Schema:
        made: Schema = {}
        if "properties" in schema:
            made["properties"] = {name: self.rewritten(part, trail) for name, part in schema["properties"].items()}
        if "prefixItems" in schema:
            made["items"] = {"anyOf": [self.rewritten(part, trail) for part in schema["prefixItems"]]}
        elif "items" in schema:
            made["items"] = self.rewritten(schema["items"], trail)
        return made

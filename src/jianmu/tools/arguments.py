"""Checks values against the part of JSON Schema that tool arguments use.

Checked: ``type``, ``enum``, ``const``, ``required``, ``properties``, ``additionalProperties``, ``minProperties``,
``maxProperties``, ``items``, ``prefixItems``, ``minItems``, ``maxItems``, ``uniqueItems``, ``minimum``, ``maximum``,
``exclusiveMinimum``, ``exclusiveMaximum``, ``multipleOf``, ``minLength``, ``maxLength``, ``pattern``, ``anyOf``,
``oneOf``, ``allOf`` and ``$ref`` to ``#/...``. Other keywords are left to the tool itself. One difference from the
standard: ``1.0`` is no integer, because Python code that asks for an integer cannot use it.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from jianmu.errors import ToolSchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Schema: TypeAlias = dict[str, Any]
Problem: TypeAlias = dict[str, Any]
"""What is wrong with one value: ``path``, ``message``, ``received``."""


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Tell whether a value is a JSON object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Tell whether a value is a JSON array."""
    return isinstance(value, list)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": is_object,
    "array": is_array,
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def find_problems(value: Any, schema: Schema | bool, *, root: Schema | None = None, path: str = "") -> list[Problem]:
    """List everything that is wrong with a value.

    Args:
        value: decoded JSON.
        schema: what it has to fit.
        root: the schema that ``$ref`` points into; ``schema`` itself when omitted.
        path: where the value sits, such as ``filters.tags[0]``; empty for the whole.

    Returns:
        One mapping per problem with ``path``, ``message`` and ``received``; empty when the value fits.
    """
    if isinstance(schema, bool):
        return [] if schema else [_problem(path, "is not allowed", value)]
    return _Check(root if root is not None else schema).problems(value, schema, path)


def drop_unset(value: Any, schema: Schema, *, root: Schema | None = None) -> Any:
    """Leave out nulls that stand for "not given".

    Models that must fill in every parameter send null for those they have no value for. A null is left out where the
    property is optional and its schema does not take null.

    Args:
        value: decoded JSON; it is not changed.
        schema: what it has to fit.
        root: the schema that ``$ref`` points into; ``schema`` itself when omitted.
    """
    return _Unset(root if root is not None else schema).cleaned(value, schema)


def resolve(schema: Any, root: Schema) -> Any:
    """Follow ``$ref`` to ``#/...`` until a schema that is none; what stands beside a reference is left behind.

    Raises:
        ToolSchemaError: the reference leaves the schema, leads nowhere or in a circle.
    """
    seen: set[str] = set()
    while is_object(schema) and "$ref" in schema:
        reference = str(schema["$ref"])
        if reference in seen or not reference.startswith("#"):
            raise ToolSchemaError(f"cannot follow $ref {reference!r}: it must point into the same schema")
        seen.add(reference)
        schema = _pointed(root, reference)
    return schema


def _pointed(root: Schema, reference: str) -> Any:
    target: Any = root
    for part in reference.removeprefix("#").split("/")[1:]:
        try:
            target = target[part.replace("~1", "/").replace("~0", "~")]
        except (KeyError, TypeError):
            raise ToolSchemaError(f"$ref {reference!r} leads nowhere") from None
    return target


def _problem(path: str, message: str, received: Any) -> Problem:
    return {"path": path or "arguments", "message": message, "received": received}


def _member(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _types(schema: Schema) -> list[str]:
    declared = schema.get("type", [])
    return [declared] if isinstance(declared, str) else list(declared)


def _fits_type(value: Any, schema: Any) -> bool:
    types = _types(schema) if is_object(schema) else []
    return not types or any(_TYPES.get(name, lambda _: True)(value) for name in types)


def _same(left: Any, right: Any) -> bool:
    """Compare as JSON does: true is not 1, at any depth."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if is_array(left) and is_array(right):
        return len(left) == len(right) and all(map(_same, left, right))
    if is_object(left) and is_object(right):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    return bool(left == right)


class _Check:
    """One walk over a value and its schema."""

    def __init__(self, root: Schema) -> None:
        self.root = root

    def problems(self, value: Any, schema: Any, path: str) -> list[Problem]:
        if is_object(schema) and "$ref" in schema:
            beside = {keyword: part for keyword, part in schema.items() if keyword != "$ref"}
            return self.problems(value, resolve(schema, self.root), path) + self.problems(value, beside, path)
        if isinstance(schema, bool):
            return [] if schema else [_problem(path, "is not allowed", value)]
        if not _fits_type(value, schema):
            return [_problem(path, f"must be {' or '.join(_types(schema))}", value)]
        return list(self._details(value, schema, path))

    def _details(self, value: Any, schema: Schema, path: str) -> Iterator[Problem]:
        yield from self._choices(value, schema, path)
        yield from self._combinations(value, schema, path)
        if is_object(value):
            yield from self._object(value, schema, path)
        elif is_array(value):
            yield from self._array(value, schema, path)
        elif isinstance(value, str):
            yield from _text(value, schema, path)
        elif _TYPES["number"](value):
            yield from _number(value, schema, path)

    def _choices(self, value: Any, schema: Schema, path: str) -> Iterator[Problem]:
        if "enum" in schema and not any(_same(value, choice) for choice in schema["enum"]):
            yield _problem(path, f"must be one of {schema['enum']!r}", value)
        if "const" in schema and not _same(value, schema["const"]):
            yield _problem(path, f"must be {schema['const']!r}", value)

    def _combinations(self, value: Any, schema: Schema, path: str) -> Iterator[Problem]:
        for part in schema.get("allOf", ()):
            yield from self.problems(value, part, path)
        if "anyOf" in schema:
            yield from self._any_of(value, schema["anyOf"], path)
        if "oneOf" in schema:
            fitting = sum(not self.problems(value, part, path) for part in schema["oneOf"])
            if fitting > 1:
                yield _problem(path, "fits more than one of the alternatives", value)
            elif not fitting:
                yield from self._any_of(value, schema["oneOf"], path)

    def _any_of(self, value: Any, alternatives: list[Any], path: str) -> list[Problem]:
        found = [self.problems(value, part, path) for part in alternatives]
        if not all(found):
            return []
        parts = [resolve(part, self.root) for part in alternatives]
        right_type = [problems for problems, part in zip(found, parts, strict=True) if _fits_type(value, part)]
        if len(right_type) == 1:
            return right_type[0]
        if not right_type:
            wanted = dict.fromkeys(name for part in parts for name in _types(part))
            return [_problem(path, f"must be {' or '.join(wanted)}", value)]
        return [_problem(path, f"fits none of the {len(alternatives)} alternatives", value)]

    def _object(self, value: dict[str, Any], schema: Schema, path: str) -> Iterator[Problem]:
        properties = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                yield _problem(_member(path, name), "is required", None)
        for name, member in value.items():
            if name in properties:
                yield from self.problems(member, properties[name], _member(path, name))
            elif (rest := schema.get("additionalProperties", True)) is False:
                known = ", ".join(properties) or "no properties at all"
                yield _problem(_member(path, name), f"is not known; expected {known}", member)
            else:
                yield from self.problems(member, rest, _member(path, name))
        yield from _size(len(value), schema, "Properties", "properties", value, path)

    def _array(self, value: list[Any], schema: Schema, path: str) -> Iterator[Problem]:
        first = schema.get("prefixItems", [])
        for index, item in enumerate(value):
            part = first[index] if index < len(first) else schema.get("items", True)
            yield from self.problems(item, part, f"{path}[{index}]")
        yield from _size(len(value), schema, "Items", "items", value, path)
        if schema.get("uniqueItems") and any(_same(a, b) for i, a in enumerate(value) for b in value[:i]):
            yield _problem(path, "must not hold an item twice", value)


def _size(size: int, schema: Schema, keyword: str, noun: str, value: Any, path: str) -> Iterator[Problem]:
    low, high = schema.get(f"min{keyword}"), schema.get(f"max{keyword}")
    if low is not None and size < low:
        yield _problem(path, f"must have at least {low} {noun}", value)
    if high is not None and size > high:
        yield _problem(path, f"must have at most {high} {noun}", value)


def _text(value: str, schema: Schema, path: str) -> Iterator[Problem]:
    yield from _size(len(value), schema, "Length", "characters", value, path)
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield _problem(path, f"must match {schema['pattern']!r}", value)


def _number(value: float, schema: Schema, path: str) -> Iterator[Problem]:
    if "minimum" in schema and not value >= schema["minimum"]:
        yield _problem(path, f"must be at least {schema['minimum']}", value)
    if "maximum" in schema and not value <= schema["maximum"]:
        yield _problem(path, f"must be at most {schema['maximum']}", value)
    if "exclusiveMinimum" in schema and not value > schema["exclusiveMinimum"]:
        yield _problem(path, f"must be more than {schema['exclusiveMinimum']}", value)
    if "exclusiveMaximum" in schema and not value < schema["exclusiveMaximum"]:
        yield _problem(path, f"must be less than {schema['exclusiveMaximum']}", value)
    if "multipleOf" in schema and not _is_multiple(value, schema["multipleOf"]):
        yield _problem(path, f"must be a multiple of {schema['multipleOf']}", value)


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    return math.isfinite(value) and math.isclose(value / step, round(value / step), rel_tol=1e-9, abs_tol=1e-9)


class _Unset:
    """One walk that leaves out nulls of optional properties."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.check = _Check(root)

    def cleaned(self, value: Any, schema: Any) -> Any:
        schema = resolve(schema, self.root)
        if isinstance(schema, bool):
            return value
        for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            candidate = self.cleaned(value, part)
            if not self.check.problems(candidate, part, ""):
                return candidate
        if is_object(value):
            return self._object(value, schema)
        if is_array(value) and "items" in schema:
            return [self.cleaned(item, schema["items"]) for item in value]
        return value

    def _object(self, value: dict[str, Any], schema: Schema) -> dict[str, Any]:
        properties, required = schema.get("properties", {}), schema.get("required", ())
        kept: dict[str, Any] = {}
        for name, member in value.items():
            part = properties.get(name, schema.get("additionalProperties", True))
            optional = name in properties and name not in required
            if not (member is None and optional and self.check.problems(None, part, "")):
                kept[name] = self.cleaned(member, part)
        return kept

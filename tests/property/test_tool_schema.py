"""The check of arguments agrees with an independent validator, and nulls stand for what is not given."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Literal

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, create_model

from jianmu.errors import ToolArgumentsError
from jianmu.tools import Tool, to_gemini, to_openai, tool
from jianmu.tools.arguments import drop_unset, find_problems

names = st.sampled_from(["a", "b", "c"])
numbers = st.integers(-5, 5) | st.sampled_from([0.5, -2.5, 3.25])
scalars = st.none() | st.booleans() | numbers | st.text("ab", max_size=3)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)
types = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
leaves = st.fixed_dictionaries(
    {},
    optional={
        "type": types | st.lists(types, min_size=1, max_size=2, unique=True),
        "enum": st.lists(scalars, min_size=1, max_size=3),
        "const": values,
        "minimum": numbers,
        "exclusiveMaximum": numbers,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["^a", "b$", "ab"]),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "minProperties": st.integers(0, 2),
        "maxProperties": st.integers(0, 2),
        "required": st.lists(names, max_size=2, unique=True),
    },
)


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=2)
    return st.tuples(
        leaves,
        st.fixed_dictionaries(
            {},
            optional={
                "properties": st.dictionaries(names, inner, max_size=3),
                "additionalProperties": inner | st.booleans(),
                "items": inner,
                "prefixItems": some,
                "anyOf": some,
                "oneOf": some,
                "allOf": some,
                "$ref": st.just("#/$defs/part"),
            },
        ),
    ).map(lambda both: {**both[0], **both[1]})


schemas = st.tuples(st.recursive(leaves, grown, max_leaves=6), leaves).map(
    lambda both: {**both[0], "$defs": {"part": both[1]}}
)

Strict = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


@settings(max_examples=60)
@given(values, schemas)
def test_the_check_agrees_with_an_independent_validator(value: Any, schema: Any) -> None:
    """R42: a value has problems exactly when another implementation of JSON Schema refuses it."""
    assert bool(find_problems(value, schema)) is not Strict(schema).is_valid(value)


@settings(max_examples=60)
@given(values, schemas)
def test_each_problem_shows_the_value_at_its_path(value: Any, schema: Any) -> None:
    """R42: received is what stands at the path, None where nothing does."""
    for problem in find_problems(value, schema):
        if problem["path"] == "arguments" or problem["message"] == "is required":
            continue
        found = value
        for step in problem["path"].replace("[", ".[").strip(".").split("."):
            found = found[int(step[1:-1])] if step.startswith("[") else found[step]
        assert found == problem["received"]


@settings(max_examples=60)
@given(values, schemas)
def test_leaving_out_nulls_never_spoils_what_fits(value: Any, schema: Any) -> None:
    """R47: what fits stays as it is, and leaving out twice is leaving out once."""
    dropped = drop_unset(value, schema)
    assert drop_unset(dropped, schema) == dropped
    if not find_problems(value, schema):
        assert not find_problems(dropped, schema)


class Inner(BaseModel):
    a: int
    b: str = "x"
    c: list[int] = []


annotations: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-9, 9),
    str: st.text("ab", max_size=3),
    bool: st.booleans(),
    list[str]: st.lists(st.text("ab", max_size=2), max_size=2),
    Literal["x", "y"]: st.sampled_from(["x", "y"]),
    int | str: st.integers(-9, 9) | st.text("ab", max_size=3),
    Inner: st.fixed_dictionaries(
        {"a": st.integers(-9, 9), "b": st.none() | st.just("y"), "c": st.none() | st.just([1])}
    ),
}


def signed(function: Any, hints: dict[str, Any], defaults: dict[str, Any]) -> None:
    none = inspect.Parameter.empty
    function.__signature__ = inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=defaults.get(name, none))
            for name, hint in hints.items()
        ]
    )


@st.composite
def tools_and_arguments(draw: st.DrawFn) -> tuple[Tool, dict[str, Any]]:
    """A function with random parameters, and what a strict model sends: all of them, null for not given."""
    parameters = draw(st.lists(st.sampled_from(list(annotations)), min_size=1, max_size=4))
    optional = draw(st.lists(st.booleans(), min_size=len(parameters), max_size=len(parameters)))
    hints = {f"p{index}": hint for index, hint in enumerate(parameters)}
    defaults = {f"p{index}": "default" for index, is_optional in enumerate(optional) if is_optional}

    def collect(**arguments: Any) -> dict[str, Any]:
        return arguments

    collect.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=hint,
                default=defaults.get(name, inspect.Parameter.empty),
            )
            for name, hint in hints.items()
        ]
    )
    arguments = {
        name: None if name in defaults and draw(st.booleans()) else draw(annotations[hint])
        for name, hint in hints.items()
    }
    return tool(collect), arguments


@settings(max_examples=60)
@given(tools_and_arguments())
def test_what_fits_the_strict_form_is_taken(drawn: tuple[Tool, dict[str, Any]]) -> None:
    """R47: arguments that OpenAI's strict form allows are valid for the tool; null gives the default."""
    made, arguments = drawn
    jsonschema.validate(arguments, to_openai([made], strict=True)[0]["function"]["parameters"])
    result = asyncio.run(made.invoke(arguments))
    assert result.keys() == arguments.keys()
    assert all(result[name] == "default" for name, value in arguments.items() if value is None)
    to_gemini([made])


@settings(max_examples=60)
@given(st.dictionaries(names, st.sampled_from([int, str, list[int]]), min_size=1), st.dictionaries(names, values))
def test_a_function_takes_what_its_model_takes(hints: dict[str, Any], arguments: dict[str, Any]) -> None:
    """R47: the tool of a function accepts exactly what pydantic accepts for the same annotations."""

    def collect(**given: Any) -> dict[str, Any]:
        return given

    signed(collect, hints, {})
    model = create_model("Model", __config__={"extra": "forbid"}, **{name: (hint, ...) for name, hint in hints.items()})
    try:
        expected = model.model_validate(arguments).model_dump()
    except ValueError:
        expected = None
    try:
        assert tool(collect).validate(arguments) == expected
    except ToolArgumentsError:
        assert expected is None

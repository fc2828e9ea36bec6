"""@tool: schema from signature and docstring, arguments to Python values."""

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from jianmu.errors import ToolArgumentsError, ToolSchemaError
from jianmu.tools import Tool, ToolContext, tool


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    """A place on earth."""

    lat: float = Field(ge=-90, le=90)
    tags: list[str] = Field(default_factory=list, description="free words")


@dataclass
class Size:
    width: int
    height: int = 1


class Note(TypedDict, total=False):
    text: str


@tool
def visit(
    place: Place,
    mode: Literal["walk", "ride"],
    days: Annotated[int, Field(ge=1, description="how long")] = 3,
    when: Optional[date] = None,  # noqa: UP045 - the old spelling has to work too
    color: Color = Color.RED,
    size: Size | str = "any",
    notes: list[Note] = Field(default_factory=list, max_length=2),  # noqa: B008 - pydantic's way
    *,
    context: ToolContext,
) -> str:
    """Visit a place.

    Takes its time.

    Args:
        place: where to go.
        mode: how.
        days: overruled by the annotation.
    """
    return repr((place, mode, days, when, color, size, notes, context.call_id))


def test_the_schema_tells_all_that_the_signature_says() -> None:
    """R47: annotations, Field, Literal, Optional, unions, nested models, enums, defaults and default factories."""
    assert visit.name == "visit"
    assert visit.description == "Visit a place.\n\nTakes its time."
    assert visit.input_schema == {
        "$defs": {
            "Color": {"enum": ["red", "blue"], "type": "string"},
            "Note": {"additionalProperties": False, "properties": {"text": {"type": "string"}}, "type": "object"},
            "Place": {
                "description": "A place on earth.",
                "properties": {
                    "lat": {"maximum": 90, "minimum": -90, "type": "number"},
                    "tags": {"description": "free words", "items": {"type": "string"}, "type": "array"},
                },
                "required": ["lat"],
                "type": "object",
            },
            "Size": {
                "additionalProperties": False,
                "properties": {"width": {"type": "integer"}, "height": {"default": 1, "type": "integer"}},
                "required": ["width"],
                "type": "object",
            },
        },
        "additionalProperties": False,
        "properties": {
            "place": {"$ref": "#/$defs/Place", "description": "where to go."},
            "mode": {"description": "how.", "enum": ["walk", "ride"], "type": "string"},
            "days": {"default": 3, "description": "how long", "minimum": 1, "type": "integer"},
            "when": {"anyOf": [{"format": "date", "type": "string"}, {"type": "null"}], "default": None},
            "color": {"$ref": "#/$defs/Color", "default": "red"},
            "size": {"anyOf": [{"$ref": "#/$defs/Size"}, {"type": "string"}], "default": "any"},
            "notes": {"items": {"$ref": "#/$defs/Note"}, "maxItems": 2, "type": "array"},
        },
        "required": ["place", "mode"],
        "type": "object",
    }
    assert visit.output_schema == {"type": "string"}


async def test_arguments_become_python_values() -> None:
    """R47: models are built, enums and dates read, defaults filled in."""
    given = {"place": {"lat": 1}, "mode": "ride", "when": "2026-02-03", "size": {"width": 2}, "notes": [{"text": "x"}]}
    told = await visit.invoke(given, context=ToolContext(call_id="c1"))
    expected = (Place(lat=1), "ride", 3, date(2026, 2, 3), Color.RED, Size(2), [{"text": "x"}], "c1")
    assert told == repr(expected)


async def test_a_default_factory_gives_each_call_its_own() -> None:
    @tool
    def collect(item: str, into: Annotated[list[str], Field(default_factory=list)]) -> list[str]:
        into.append(item)
        return into

    assert [await collect.invoke({"item": "a"}) for _ in range(2)] == [["a"], ["a"]]


async def test_problems_are_listed_by_path() -> None:
    """R47: path, message and received value of each problem."""
    wrong = {"place": {"lat": 100, "tags": [1]}, "days": 0, "mood": "good"}
    with pytest.raises(ToolArgumentsError) as caught:
        await visit.invoke(wrong)
    found = {problem["path"]: (problem["message"], problem["received"]) for problem in caught.value.problems}
    assert found == {
        "place.lat": ("Input should be less than or equal to 90", 100),
        "place.tags[0]": ("Input should be a valid string", 1),
        "mode": ("is required", None),
        "days": ("Input should be greater than or equal to 1", 0),
        "mood": ("is not known", "good"),
    }


async def test_null_for_an_optional_parameter_is_its_default() -> None:
    """R47: strict providers send null for what is not given."""
    told = await visit.invoke({"place": {"lat": 1, "tags": None}, "mode": "walk", "days": None, "color": None})
    assert told.startswith("(Place(lat=1.0, tags=[]), 'walk', 3, None, <Color.RED")


def test_a_tool_can_still_be_called_as_the_function_it_was() -> None:
    @tool
    def add(a: int, b: int = 1) -> int:
        return a + b

    assert add(2, b=3) == 5


async def test_an_async_function_is_a_tool_too() -> None:
    @tool
    async def slow(text: str) -> str:
        await asyncio.sleep(0)
        return text.upper()

    assert await slow.invoke({"text": "a"}) == "A"
    assert await slow("b") == "B"


async def test_parameters_may_have_any_name() -> None:
    """R47: names that a pydantic model or a JSON schema uses itself do not clash."""

    @tool
    def odd(model_config: int, json: int, _hidden: int, self_: int, schema: int, validate: int = 5) -> list[int]:
        return [model_config, json, _hidden, self_, schema, validate]

    assert list(odd.input_schema["properties"]) == ["model_config", "json", "_hidden", "self_", "schema", "validate"]
    given = {"model_config": 1, "json": 2, "_hidden": 3, "self_": 4, "schema": 5}
    assert await odd.invoke(given) == [1, 2, 3, 4, 5, 5]


def test_settings_are_the_attributes_of_the_tool() -> None:
    """R47: name, description and the flags can be given to the decorator."""

    @tool(name="wipe-disk", description="Wipes.", effect="write", requires_approval=True, timeout=5, sequential=True)
    def wipe() -> None:
        """Not this."""

    assert (wipe.name, wipe.description, wipe.effect, wipe.requires_approval) == ("wipe-disk", "Wipes.", "write", True)
    assert (wipe.timeout, wipe.sequential, wipe.idempotent, wipe.max_result_chars) == (5, True, False, None)
    assert wipe.output_schema is None


def test_an_unknown_setting_is_an_error() -> None:
    settings: dict[str, Any] = {"timeuot": 5}
    with pytest.raises(TypeError, match="timeuot"):

        @tool(**settings)
        def nothing() -> None: ...


def test_a_bound_method_is_a_tool() -> None:
    class Shop:
        def __init__(self) -> None:
            self.sold: list[str] = []

        def sell(self, item: str) -> None:
            """Sell something."""
            self.sold.append(item)

    shop = Shop()
    made = tool(shop.sell)
    made("tea")
    assert shop.sold == ["tea"]
    assert list(made.input_schema["properties"]) == ["item"]


def no_annotation(a): ...  # type: ignore[no-untyped-def]
def several(*a: int) -> None: ...
def by_keyword(**a: int) -> None: ...
def by_position(a: int, /) -> None: ...
def no_json(a: Callable[[], int]) -> None: ...
def no_such_type(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def no_list() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (no_annotation, "no_annotation(a): has no annotation"),
        (several, "several(a): a model cannot fill *args"),
        (by_keyword, "by_keyword(a): a model cannot fill *args or **kwargs"),
        (by_position, "by_position(a): arguments are passed by name"),
        (no_json, "no_json(a): JSON Schema cannot describe its type"),
        (no_such_type, "no_such_type(a): cannot read the annotation 'Nowhere'"),
        (no_list, "no_list: a generator cannot be a tool"),
        (lambda: 1, "tool name '<lambda>'"),
    ],
)
def test_a_function_no_model_could_call_is_refused_with_the_reason(function: Any, says: str) -> None:
    """R47: a clear error names the function, the parameter and what to do."""
    with pytest.raises(ToolSchemaError, match=re.escape(says)):
        tool(function)


def test_a_result_without_a_schema_is_no_error() -> None:
    @tool
    def opaque() -> Callable[[], int]:
        return lambda: 1

    assert opaque.output_schema is None


def test_local_types_can_be_named_in_annotations() -> None:
    """R47: a tool made inside a function may use types of that function, also as text."""

    class Local(BaseModel):
        a: int

    @tool
    def use(it: "Local", more: "list[Local] | None" = None) -> None: ...

    assert use.input_schema["properties"]["it"] == {"$ref": "#/$defs/Local"}
    assert isinstance(use, Tool)

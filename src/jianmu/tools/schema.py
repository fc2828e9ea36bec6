"""From a function's signature and docstring to the JSON Schema of its arguments, through pydantic."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from jianmu.errors import ToolSchemaError
from jianmu.tools.base import context_parameter
from jianmu.tools.docstrings import parse_docstring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jianmu.tools.arguments import Problem, Schema

_Field: TypeAlias = tuple[str, tuple[Any, Any]]
"""A field of a pydantic model: its name, its type and its default."""

_MESSAGES = {"missing": "is required", "extra_forbidden": "is not known"}
_SLOT = "p_{}"  # pydantic field names must not shadow BaseModel's own or begin with "_"; parameter names may


@dataclass(frozen=True)
class Signature:
    """What a model has to know to call a function, and the check of what it sends.

    Attributes:
        description: the docstring without its sections.
        input_schema: JSON Schema of the arguments. A parameter annotated `ToolContext` is left out.
        output_schema: JSON Schema of what is returned; None when there is no annotation or no schema for it.
        parameters: the names of the arguments, in order.
        model: the pydantic model that checks them.
    """

    description: str
    input_schema: Schema
    output_schema: Schema | None
    parameters: tuple[str, ...]
    model: type[BaseModel]

    @classmethod
    def of(cls, function: Callable[..., Any], localns: Mapping[str, Any] | None = None) -> Signature:
        """Read a function.

        Args:
            function: sync or async; every parameter has a name and an annotation.
            localns: names that its annotations may use besides the function's globals.

        Raises:
            ToolSchemaError: a parameter has no annotation, takes several values (``*args``, ``**kwargs``), cannot be
                passed by name, or has a type that JSON Schema cannot describe.
        """
        reader = _Reader(function, localns or {})
        parameters = tuple(reader.parameters)
        model, input_schema = reader.arguments_model()
        return cls(reader.description, input_schema, reader.output_schema(), parameters, model)

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function takes them, defaults included.

        Raises:
            pydantic.ValidationError: they do not fit; `problems_of` reads it.
        """
        values = self.model.model_validate(dict(arguments))
        return {name: getattr(values, _SLOT.format(index)) for index, name in enumerate(self.parameters)}


class _Reader:
    """Reads one function; thrown away afterwards, with the local names it was given."""

    def __init__(self, function: Callable[..., Any], localns: Mapping[str, Any]) -> None:
        self.function = function
        self.localns = dict(localns)
        self.name = getattr(function, "__name__", repr(function))
        self.description, self.notes = parse_docstring(inspect.getdoc(function))
        self.signature = inspect.signature(function)
        hidden = context_parameter(function)
        self.parameters = {name: it for name, it in self.signature.parameters.items() if name != hidden}

    def arguments_model(self) -> tuple[type[BaseModel], Schema]:
        fields = {name: self.field(index, parameter) for index, (name, parameter) in enumerate(self.parameters.items())}
        try:
            return _built(fields.values())
        except Exception as error:  # pydantic raises errors of many kinds for types and constraints it cannot use
            culprit = next((name for name, field in fields.items() if not _is_describable(field)), "")
            reason = str(error).partition("\n")[0]
            raise ToolSchemaError(f"{self.name}({culprit}): JSON Schema cannot describe its type: {reason}") from error

    def field(self, index: int, parameter: inspect.Parameter) -> _Field:
        where = f"{self.name}({parameter.name})"
        _check_kind(parameter, where)
        hint: Any = self.resolved(parameter.annotation, where)
        if note := self.notes.get(parameter.name):
            hint = _described(hint, note)
        hint = Annotated[hint, Field(alias=parameter.name)]
        return _SLOT.format(index), (
            hint,
            _default(hint) if parameter.default is parameter.empty else parameter.default,
        )

    def resolved(self, annotation: Any, where: str) -> Any:
        holder = SimpleNamespace(__annotations__={"it": annotation})
        globalns = getattr(inspect.unwrap(self.function), "__globals__", {})
        try:
            return get_type_hints(holder, globalns, self.localns, include_extras=True)["it"]
        except (NameError, SyntaxError, TypeError) as error:
            raise ToolSchemaError(f"{where}: cannot read the annotation {annotation!r}: {error}") from error

    def output_schema(self) -> Schema | None:
        annotation = self.signature.return_annotation
        if annotation in (inspect.Signature.empty, None, "None", Any, "Any"):
            return None
        try:
            returned: TypeAdapter[Any] = TypeAdapter(self.resolved(annotation, f"what {self.name} returns"))
            return _untitled(returned.json_schema(mode="serialization", schema_generator=_Quiet))
        except (ToolSchemaError, PydanticUserError):
            return None


def _described(hint: Any, note: str) -> Any:
    """Add a description that gives way to one in the annotation itself."""
    base, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    return Annotated[(base, Field(description=note), *metadata)]


def _default(hint: Any) -> Any:
    """Return the field of an annotation that brings a default; otherwise what pydantic takes for "required"."""
    return next((it for it in get_args(hint)[1:] if isinstance(it, FieldInfo) and not it.is_required()), ...)


def _built(fields: Iterable[_Field]) -> tuple[type[BaseModel], Schema]:
    model: type[BaseModel] = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **dict[str, Any](fields))
    return model, _untitled(model.model_json_schema(schema_generator=_Quiet))


def _is_describable(field: _Field) -> bool:
    try:
        _built([field])
    except Exception:
        return False
    return True


def _check_kind(parameter: inspect.Parameter, where: str) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise ToolSchemaError(f"{where}: a model cannot fill *args or **kwargs; name the parameters")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ToolSchemaError(f"{where}: arguments are passed by name; make it no positional-only parameter")
    if parameter.annotation is parameter.empty:
        raise ToolSchemaError(f"{where}: has no annotation, so that a model cannot know what to send")


def problems_of(error: ValidationError) -> list[Problem]:
    """Turn pydantic's errors into ``path``, ``message``, ``received``."""
    return [
        {
            "path": _path(detail["loc"]) or "arguments",
            "message": _MESSAGES.get(detail["type"], detail["msg"]),
            "received": None if detail["type"] == "missing" else detail["input"],
        }
        for detail in error.errors(include_url=False, include_context=False)
    ]


def _path(location: tuple[int | str, ...]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")


class _Quiet(GenerateJsonSchema):
    """Leaves out titles made of parameter names, and defaults that JSON has no form for."""

    ignored_warning_kinds: ClassVar[Any] = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def encode_default(self, dft: Any) -> Any:
        encoded = super().encode_default(dft)
        return sorted(encoded, key=repr) if isinstance(dft, (set, frozenset)) else encoded  # the same in every process


def _untitled(schema: Schema) -> Schema:
    """Drop the titles that repeat a class name."""
    schema.pop("title", None)
    for name, definition in schema.get("$defs", {}).items():
        if definition.get("title") == name:
            del definition["title"]
    return schema

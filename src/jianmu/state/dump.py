"""What the state manager saves, field by field, at a cost that grows with what changed.

`FieldDumper` remembers what it wrote last for one field. A value that can not change under its holder is compared by
identity; a list of such values by its items, so that only appended ones are written; everything else is written anew
and compared with what was written before. A value changed in place is therefore never missed.
"""

from __future__ import annotations

from operator import is_
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from jianmu.errors import SerializationError
from jianmu.serialization import JsonData, decode, encode, is_immutable, same

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

FieldChange: TypeAlias = tuple[Literal["set"]] | tuple[Literal["append"], int]

_SET: FieldChange = ("set",)
_UNWRITTEN: Any = object()


class StateDump(dict[str, JsonData]):
    """A JSON-safe dump of a state: a plain dict that also knows what changed.

    Values that did not change are the same objects as in the dump before, so that comparing two dumps is cheap.

    Attributes:
        source: names the state manager instance that made it.
        sequence: the number of this dump, counted from 1.
        previous: the number of the dump that ``changes`` is relative to; None for the first.
        changes: field name to ``("append", count)`` or ``("set",)``; a field that is absent did not change.
    """

    def __init__(
        self,
        values: dict[str, JsonData],
        *,
        source: str,
        sequence: int,
        previous: int | None,
        changes: dict[str, FieldChange],
    ) -> None:
        super().__init__(values)
        self.source = source
        self.sequence = sequence
        self.previous = previous
        self.changes = changes


class FieldDumper:
    """Writes one field of a state.

    Args:
        path: the field's name in errors, such as ``state.profile``.
        info: the field as pydantic describes it.
    """

    def __init__(self, path: str, info: FieldInfo) -> None:
        self._path = path
        annotation = cast("Any", info.annotation)
        self._adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        self._list_adapter: TypeAdapter[list[Any]] | None = None
        if get_origin(annotation) is list:
            (item,) = get_args(annotation)
            self._list_adapter = TypeAdapter(cast("Any", GenericAlias(list, (item,))))
        self._value: Any = _UNWRITTEN
        self._items: list[Any] | None = None
        self._items_are_models = False
        self._encoded: JsonData = None

    def dump(self, value: Any) -> tuple[JsonData, FieldChange | None]:
        """Write the field's value.

        Returns:
            The JSON-safe value and what changed since the last call; None when nothing did.

        Raises:
            SerializationError: the value would not come back equal; nothing is remembered of it.
        """
        if self._items is not None and type(value) is list:
            return self._dump_grown(cast("list[Any]", value), self._items)
        if value is self._value:
            return self._encoded, None
        return self._dump_anew(value)

    def _dump_grown(self, value: list[Any], known: list[Any]) -> tuple[JsonData, FieldChange | None]:
        count = len(known)
        new = value[count:]
        if not self._starts_with(known, value) or not all(map(is_immutable, new)):
            return self._dump_anew(value)
        if not new:
            return self._encoded, None
        self._encoded = self._encoded + self._encode(new, offset=count)
        known.extend(new)
        self._items_are_models = self._items_are_models and _are_models(new)
        return self._encoded, ("append", len(new))

    def _starts_with(self, known: list[Any], value: list[Any]) -> bool:
        if len(value) < len(known):
            return False
        if self._items_are_models:
            # Comparing lists tries identity first and runs in C; an equal frozen model is as good as the same one.
            return value[: len(known)] == known
        return all(map(is_, known, value))

    def _dump_anew(self, value: Any) -> tuple[JsonData, FieldChange | None]:
        encoded = self._encode(value)
        unchanged = self._value is not _UNWRITTEN and same(encoded, self._encoded)
        self._remember(value)
        if not unchanged:
            self._encoded = encoded
        return self._encoded, None if unchanged else _SET

    def _remember(self, value: Any) -> None:
        self._items = None
        self._value = None  # written before, and never equal by identity to a value that may change in place
        if is_immutable(value):
            self._value = value
        elif type(value) is list and all(map(is_immutable, cast("list[Any]", value))):
            self._items = list(cast("list[Any]", value))
            self._items_are_models = _are_models(self._items)

    def _encode(self, value: Any, offset: int | None = None) -> JsonData:
        path = self._path if offset is None else f"{self._path}[{offset}:]"
        try:
            encoded = encode(value, path, typed=True)
        except SerializationError as error:
            return self._encode_by_schema(value, error)
        if offset is not None and self._list_adapter is not None:
            self._check(self._list_adapter, value, encoded, path)
        elif offset is None:
            self._check(self._adapter, value, encoded, path)
        return encoded

    def _encode_by_schema(self, value: Any, error: SerializationError) -> JsonData:
        """Let pydantic write types that only it knows, such as addresses and URLs."""
        try:
            encoded = self._adapter.dump_python(value, mode="json", round_trip=True)
            self._check(self._adapter, value, encoded, self._path)
        except (SerializationError, ValueError, TypeError):
            raise error from None
        return encoded

    def _check(self, adapter: TypeAdapter[Any], value: Any, encoded: JsonData, path: str) -> None:
        try:
            back = adapter.validate_python(decode(encoded))
        except ValidationError as error:
            raise SerializationError(path, f"would not fit its own field when read back: {error}") from error
        if not same(value, back):
            raise SerializationError(
                path + _first_difference(value, back),
                "would come back different from storage; annotate the field with the value's own type, "
                "or mark it Ephemeral",
            )


def _are_models(items: list[Any]) -> bool:
    return all(isinstance(item, BaseModel) for item in items)


def _first_difference(left: Any, right: Any) -> str:
    """Return the path of the innermost part in which two values differ."""
    if type(left) is type(right):
        for part, (a, b) in _parts(left, right):
            if not same(a, b):
                return part + _first_difference(a, b)
    return ""


def _parts(left: Any, right: Any) -> list[tuple[str, tuple[Any, Any]]]:
    if isinstance(left, BaseModel):
        return [(f".{name}", (getattr(left, name), getattr(right, name))) for name in type(left).model_fields]
    if isinstance(left, dict):
        keys = [key for key in cast("dict[Any, Any]", left) if key in right]
        return [(f".{key}", (left[key], right[key])) for key in keys]
    if isinstance(left, (list, tuple)):
        pairs = zip(cast("list[Any]", left), right, strict=False)
        return [(f"[{index}]", pair) for index, pair in enumerate(pairs)]
    return []

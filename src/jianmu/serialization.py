"""Python values to JSON-safe data and back, without losing a type on the way.

JSON knows text, numbers, booleans, null, lists and dicts with text keys. Everything else travels under a tag, as
``{"$jianmu": ["date", "2026-05-01"]}``. Reading builds only the plain types listed here, never a class that the data
names: stored data can not decide what code runs.

Values whose class only a schema knows (pydantic models, dataclasses, enums, subclasses of builtins) are written as
their content when ``typed=True``; the caller then puts the class back by validating and checks the result with `same`.
"""

# Values of any type pass through here, so "partially unknown" is the normal case and says nothing.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import base64
import dataclasses
import math
from collections import deque
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from uuid import UUID
from zoneinfo import ZoneInfo

import orjson
from pydantic import AliasChoices, BaseModel

from jianmu.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

JsonData: TypeAlias = Any

TAG = "$jianmu"
MAX_DEPTH = 200

_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1


class _UnencodableError(Exception):
    """Carries a reason upwards while each level adds its part of the path."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.parts: list[str] = []


def encode(value: Any, path: str = "value", *, typed: bool = False) -> JsonData:
    """Turn a value into JSON-safe data.

    Args:
        value: any nesting of None, bool, int, float, str, bytes, list, tuple, set, frozenset, dict, deque, datetime,
            date, time, timedelta, Decimal, UUID, complex and paths.
        path: the name of the value, used in errors.
        typed: also write models, dataclasses, enums and subclasses of builtins, as their content; a schema must put
            their class back.

    Returns:
        Data that orjson writes and reads back equal.

    Raises:
        SerializationError: a part of the value can not be stored; names its path.

    Example:
        >>> encode({1, 2})
        {'$jianmu': ['set', [1, 2]]}
    """
    try:
        return _Encoder(typed).encode(value, 0)
    except _UnencodableError as error:
        raise SerializationError(path + "".join(reversed(error.parts)), error.reason) from None


def decode(data: JsonData) -> Any:
    """Read back what `encode` wrote.

    Raises:
        SerializationError: a tag is unknown or its content does not fit.
    """
    if type(data) is list:
        return [decode(item) for item in data]
    if type(data) is not dict:
        return data
    mapping: dict[str, Any] = data
    if TAG not in mapping:
        return {key: decode(item) for key, item in mapping.items()}
    try:
        name, content = mapping[TAG]
        return _DECODERS[name](content)
    except (KeyError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise SerializationError("stored data", f"cannot read {mapping!r:.200}: {error!r}") from error


def same(left: Any, right: Any) -> bool:
    """Tell whether two values are equal and of the same types, all the way down.

    Unlike ``==`` it keeps ``1``, ``1.0`` and ``True`` apart and finds NaN equal to itself.
    """
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    compare = _COMPARERS.get(type(left))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if compare is not None:
        return compare(left, right)
    return _same_object(left, right)


def is_immutable(value: Any) -> bool:
    """Tell whether a value can not change under its holder.

    Frozen models and dataclasses count as immutable by contract: what is inside them is not watched.
    """
    kind = type(value)
    if kind in _ATOMS or isinstance(value, (Enum, PurePath)):
        return True
    if kind in (tuple, frozenset):
        return all(map(is_immutable, value))
    if isinstance(value, BaseModel):
        return bool(value.model_config.get("frozen"))
    parameters = getattr(kind, "__dataclass_params__", None)
    return bool(parameters is not None and parameters.frozen)


def _tag(name: str, content: Any) -> JsonData:
    return {TAG: [name, content]}


class _Encoder:
    def __init__(self, typed: bool) -> None:
        self._typed = typed

    def encode(self, value: Any, depth: int) -> JsonData:
        kind = type(value)
        if kind is str:
            return _encode_text(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if _MIN_INT <= value <= _MAX_INT else _tag("int", format(value, "x"))
        if kind is float:
            return value if math.isfinite(value) else _tag("float", repr(value))
        if depth >= MAX_DEPTH:
            raise _UnencodableError(f"nested deeper than {MAX_DEPTH} levels, or it contains itself")
        if kind is dict:
            return self._dict(value, depth + 1)
        if kind is list:
            return self._items(cast("list[Any]", value), depth + 1)
        return self._other(value, depth + 1)

    def _items(self, items: Iterable[Any], depth: int) -> list[JsonData]:
        encoded: list[JsonData] = []
        try:
            for item in items:
                encoded.append(self.encode(item, depth))
        except _UnencodableError as error:
            error.parts.append(f"[{len(encoded)}]")
            raise
        return encoded

    def _dict(self, mapping: dict[Any, Any], depth: int) -> JsonData:
        encoded: dict[Any, JsonData] = {}
        plain = TAG not in mapping
        key: Any = None
        try:
            for key, item in mapping.items():
                encoded[key] = self.encode(item, depth)
                plain = plain and type(key) is str and (key.isascii() or type(_encode_text(key)) is str)
        except _UnencodableError as error:
            error.parts.append(f".{key}" if type(key) is str else f"[{key!r}]")
            raise
        if plain:
            return encoded
        keys = self._items(encoded, depth)
        return _tag("dict", [[key, item] for key, item in zip(keys, encoded.values(), strict=True)])

    def _other(self, value: Any, depth: int) -> JsonData:
        kind = type(value)
        encoder = _ENCODERS.get(kind)
        if encoder is not None:
            return encoder(value)
        if isinstance(value, PurePath):
            return _tag("path", _encode_text(str(value)))
        collection = _COLLECTIONS.get(kind)
        if collection is not None:
            return self._collection(collection, value, depth)
        if self._typed:
            return self._typed_value(value, depth)
        raise _UnencodableError(
            f"{type(value).__module__}.{type(value).__qualname__} can not be stored as data; "
            "store its content in plain types"
        )

    def _collection(self, name: str, value: Any, depth: int) -> JsonData:
        items = self._items(value, depth)
        if name in ("set", "frozenset"):
            items.sort(key=orjson.dumps)
        if name == "deque":
            return _tag(name, [items, value.maxlen])
        return _tag(name, items)

    def _typed_value(self, value: Any, depth: int) -> JsonData:
        if isinstance(value, Enum):
            return self.encode(value.value, depth)
        if isinstance(value, BaseModel):
            return self._dict(_model_content(value), depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._dict({field.name: getattr(value, field.name) for field in _init_fields(value)}, depth)
        for base in _BASES:
            if isinstance(value, base):
                return self.encode(base(value), depth)
        raise _UnencodableError(
            f"{type(value).__module__}.{type(value).__qualname__} can not be stored as data; "
            "use plain types, or mark the field Ephemeral"
        )


def _encode_text(text: str) -> JsonData:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _tag("str", base64.b64encode(text.encode("utf-8", "surrogatepass")).decode())
    return text


def _decode_text(content: str) -> str:
    return base64.b64decode(content).decode("utf-8", "surrogatepass")


def _encode_datetime(moment: datetime) -> JsonData:
    zone = moment.tzinfo
    if isinstance(zone, ZoneInfo) and zone.key:
        return _tag("datetime", [moment.replace(tzinfo=None).isoformat(), zone.key, moment.fold])
    return _tag("datetime", [moment.isoformat(), None, moment.fold])


def _decode_datetime(content: list[Any]) -> datetime:
    text, zone, fold = content
    moment = datetime.fromisoformat(text)
    return moment.replace(fold=fold, tzinfo=ZoneInfo(zone) if zone else moment.tzinfo)


def _encode_time(moment: time) -> JsonData:
    if moment.tzinfo is not None and moment.utcoffset() is None:
        raise _UnencodableError("a time of day whose zone has no fixed offset can not be stored; store a datetime")
    return _tag("time", [moment.isoformat(), moment.fold])


def _model_content(model: BaseModel) -> dict[str, Any]:
    fields = type(model).model_fields
    content = {_input_name(name, fields[name].validation_alias): getattr(model, name) for name in fields}
    return content | (model.model_extra or {})


def _input_name(name: str, alias: Any) -> str:
    if isinstance(alias, AliasChoices):
        alias = alias.choices[0]
    return alias if isinstance(alias, str) else name


def _init_fields(value: Any) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(value) if field.init]


def _same_items(left: Any, right: Any) -> bool:
    return len(left) == len(right) and all(map(same, left, right))


def _same_dict(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    # Order counts: a dict that comes back in another order would be iterated differently.
    return _same_items(list(left), list(right)) and _same_items(list(left.values()), list(right.values()))


def _same_set(left: Any, right: Any) -> bool:
    return left == right and sorted(map(_typed_key, left)) == sorted(map(_typed_key, right))


def _typed_key(item: Any) -> str:
    return f"{type(item).__qualname__} {item!r}"


def _same_float(left: float, right: float) -> bool:
    return repr(left) == repr(right)


def _same_moment(left: Any, right: Any) -> bool:
    return left == right and left.utcoffset() == right.utcoffset() and left.fold == right.fold


def _same_object(left: Any, right: Any) -> bool:
    if isinstance(left, BaseModel):
        return (
            _same_dict(dict(vars(left)), dict(vars(right)))
            and same(left.model_extra, right.model_extra)
            and same(left.__pydantic_private__, right.__pydantic_private__)
        )
    if dataclasses.is_dataclass(left) and not isinstance(left, type):
        return all(same(getattr(left, f.name), getattr(right, f.name)) for f in dataclasses.fields(left))
    for base in (dict, set, frozenset, list, tuple, deque):
        if isinstance(left, base):
            return _COMPARERS[base](left, right)
    return bool(left == right)


_ENCODERS: dict[type, Callable[[Any], JsonData]] = {
    bytes: lambda value: _tag("bytes", base64.b64encode(value).decode()),
    bytearray: lambda value: _tag("bytearray", base64.b64encode(value).decode()),
    datetime: _encode_datetime,
    date: lambda value: _tag("date", value.isoformat()),
    time: _encode_time,
    timedelta: lambda value: _tag("timedelta", [value.days, value.seconds, value.microseconds]),
    timezone: lambda value: _tag("timezone", value.utcoffset(None).total_seconds()),
    Decimal: lambda value: _tag("decimal", str(value)),
    UUID: lambda value: _tag("uuid", value.hex),
    complex: lambda value: _tag("complex", [repr(value.real), repr(value.imag)]),
}
_COLLECTIONS: dict[type, str] = {tuple: "tuple", set: "set", frozenset: "frozenset", deque: "deque"}
_DECODERS: dict[str, Callable[[Any], Any]] = {
    "str": _decode_text,
    "int": lambda content: int(content, 16),
    "float": float,
    "bytes": base64.b64decode,
    "bytearray": lambda content: bytearray(base64.b64decode(content)),
    "datetime": _decode_datetime,
    "date": date.fromisoformat,
    "time": lambda content: time.fromisoformat(content[0]).replace(fold=content[1]),
    "timedelta": lambda content: timedelta(*content),
    "timezone": lambda content: timezone(timedelta(seconds=content)),
    "decimal": Decimal,
    "uuid": UUID,
    "complex": lambda content: complex(float(content[0]), float(content[1])),
    "path": lambda content: Path(decode(content)),
    "tuple": lambda content: tuple(decode(item) for item in content),
    "set": lambda content: {decode(item) for item in content},
    "frozenset": lambda content: frozenset(decode(item) for item in content),
    "deque": lambda content: deque((decode(item) for item in content[0]), maxlen=content[1]),
    "dict": lambda content: {decode(key): decode(item) for key, item in content},
}
_COMPARERS: dict[type, Callable[[Any, Any], bool]] = {
    dict: _same_dict,
    list: _same_items,
    tuple: _same_items,
    deque: lambda left, right: left.maxlen == right.maxlen and _same_items(left, right),
    set: _same_set,
    frozenset: _same_set,
    float: _same_float,
    complex: lambda left, right: repr(left) == repr(right),
    Decimal: lambda left, right: left.as_tuple() == right.as_tuple(),
    datetime: _same_moment,
    time: _same_moment,
}
_BASES: tuple[type[Any], ...] = (int, float, str, bytes, dict, list, tuple, set, frozenset, deque)
_ATOMS: frozenset[type] = frozenset(
    {
        type(None), bool, int, float, complex, str, bytes, datetime, date, time, timedelta, timezone, Decimal, UUID,
    }
)  # fmt: skip

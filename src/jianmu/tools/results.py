"""How a tool's result, or its failure, is told to a model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson
from pydantic_core import to_jsonable_python

from jianmu.messages import Message

if TYPE_CHECKING:
    from jianmu.messages import ToolCall


_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS


def canonical_json(value: Any) -> str:
    """Write a value as JSON that is the same for equal values: sorted keys, no blanks.

    Pydantic models, dataclasses, dates, sets (sorted), bytes and the like are written as JSON can; anything else as its
    ``str``.

    Example:
        >>> canonical_json({"b": (1, 2), "a": None})
        '{"a":null,"b":[1,2]}'
    """
    try:
        return orjson.dumps(value, default=_plain, option=_OPTIONS).decode()
    except TypeError:
        # What orjson cannot write: integers above 64 bits, lone surrogates.
        plain = to_jsonable_python(value, fallback=str, inf_nan_mode="null")
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=canonical_json)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return to_jsonable_python(value, fallback=str)


def result_text(value: Any) -> str:
    """Write a tool's result for a model: text as it is, anything else as `canonical_json`."""
    return value if isinstance(value, str) else canonical_json(value)


def cut(text: str, limit: int | None) -> str:
    """Keep the first ``limit`` characters and say so; None keeps all."""
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: the first {limit} of {len(text)} characters]"


def error_text(kind: str, message: str, **details: Any) -> str:
    """Write a failure for a model, as JSON under the key ``error``."""
    return canonical_json({"error": {"type": kind, "message": message, **details}})


def error_result(call: ToolCall, kind: str, message: str, **details: Any) -> Message:
    """Answer a call with a failure; ``metadata["is_error"]`` marks it."""
    text = error_text(kind, message, **details)
    return Message.tool_result(call.id, text, name=call.name, metadata={"is_error": True, "error_type": kind})

"""The envelope that every checkpoint travels in, and the one place that builds, checks and writes it."""

# Values of any type pass through here, so "partially unknown" is the normal case and says nothing.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

import orjson

from jianmu.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jianmu.memory.checkpoint.protocol import Envelope

_ATOMS = frozenset({str, int, bool, type(None)})
_MAX_DEPTH = 1000  # as deep as Python calls go; orjson refuses to write what is a quarter as deep


def make_checkpoint_envelope(
    step: int,
    state_dump: Mapping[str, Any],
    tree_state: Mapping[str, str] | None = None,
    runtime_metadata: Mapping[str, Any] | None = None,
) -> Envelope:
    """Pack one snapshot.

    Args:
        step: the tick number.
        state_dump: the state, JSON-safe.
        tree_state: node path to Status name, or None.
        runtime_metadata: the runner's own data; ``{}`` when omitted.

    Returns:
        A dict with exactly the keys ``step``, ``state``, ``tree`` and ``runtime_metadata``.

    Example:
        >>> make_checkpoint_envelope(3, {"topic": "tea"})
        {'step': 3, 'state': {'topic': 'tea'}, 'tree': None, 'runtime_metadata': {}}
    """
    return {
        "step": step,
        "state": dict(state_dump),
        "tree": None if tree_state is None else dict(tree_state),
        "runtime_metadata": {} if runtime_metadata is None else dict(runtime_metadata),
    }


def extract_checkpoint_payload(stored: Any) -> Envelope | None:
    """Check a stored value and return it as an envelope.

    Fields that are missing beside ``step`` and ``state`` get their defaults; unknown fields are kept, so that an
    envelope written by a later version stays readable.

    Args:
        stored: whatever was read back.

    Returns:
        The envelope, or None unless ``stored`` is a dict whose ``step`` is an int and whose ``state`` is a dict.

    Example:
        >>> extract_checkpoint_payload({"payload": {"step": 1, "state": {}}}) is None
        True
    """
    if not isinstance(stored, dict):
        return None
    candidate = cast("dict[str, Any]", stored)
    step, state = candidate.get("step"), candidate.get("state")
    if not _is_step(step) or not isinstance(state, dict):
        return None
    tree, metadata = candidate.get("tree"), candidate.get("runtime_metadata")
    return {
        **candidate,
        "tree": tree if isinstance(tree, dict) else None,
        "runtime_metadata": metadata if isinstance(metadata, dict) else {},
    }


def write_envelope(envelope: Envelope, *, state_is_json: bool = False) -> bytes:
    """Write an envelope as JSON that reads back equal.

    Args:
        envelope: what `make_checkpoint_envelope` made.
        state_is_json: the state is known to be JSON data, as what ``StateManager.dump_checkpoint()`` returns is; then
            it is not looked through.

    Raises:
        SerializationError: a value would not come back equal; its path starts at ``state``, ``tree`` or
            ``runtime_metadata``.
    """
    if not _is_step(envelope["step"]):
        raise SerializationError("step", f"{envelope['step']!r} is no whole number")
    try:
        written = orjson.dumps(envelope)
    except TypeError:
        written = b""
    if (
        written
        and _misfit([value for key, value in envelope.items() if not (state_is_json and key == "state")]) is None
    ):
        return written
    raise first_failure(envelope, _write_part) or SerializationError("envelope", "it can not be written as JSON")


def _is_step(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def first_failure(envelope: Envelope, attempt: Callable[[Any], object]) -> SerializationError | None:
    """Find out which part of an envelope something can not be done to.

    Args:
        envelope: the envelope.
        attempt: raises an exception for a value that has such a part in it, or is one.

    Returns:
        An error that names the path of the innermost such part and says what was raised; None when there is none.
    """
    for key, value in envelope.items():
        failure = _innermost(value, attempt, key, 0)
        if failure is not None:
            return failure
    return None


def _innermost(value: Any, attempt: Callable[[Any], object], path: str, depth: int) -> SerializationError | None:
    try:
        attempt(value)
    except Exception as error:
        parts = _parts(value) if depth < _MAX_DEPTH // 4 else ()
        inner = (_innermost(part, attempt, path + name, depth + 1) for name, part in parts)
        return next(filter(None, inner), None) or SerializationError(path, str(error))
    return None


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f".{key}" if isinstance(key, str) else f"[{key!r}]", item) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [(f"[{index}]", item) for index, item in enumerate(value)]
    return []


def _write_part(value: Any) -> None:
    reason = _misfit([value])
    if reason is not None:
        raise TypeError(reason)
    orjson.dumps(value)


def _misfit(level: list[Any]) -> str | None:
    """Say why values would not come back from JSON as they are; None when they would.

    JSON writers turn tuples into lists and NaN into null without a word, so asking one is not enough. This goes level
    by level, because most values sit in the last one and are then only looked at by loops that run in C.
    """
    for _ in range(_MAX_DEPTH):
        containers, floats = [], []
        for value in level:
            if isinstance(value, (dict, list)):
                containers.append(value.values() if isinstance(value, dict) else value)
            elif type(value) is float:
                floats.append(value)
            elif not isinstance(value, (str, int, type(None))):
                return _reason(value)
        if not all(map(isfinite, floats)):
            return "NaN and infinity are no JSON numbers"
        level = list(chain.from_iterable(containers))
        if _ATOMS.issuperset(map(type, level)):
            return None
        level = [value for value in level if type(value) not in _ATOMS]
    return "it is nested too deeply, or contains itself"


def _reason(value: Any) -> str:
    if isinstance(value, tuple):
        return "a tuple would come back as a list; give a list"
    return f"{type(value).__module__}.{type(value).__qualname__} is no JSON data; give plain dicts, lists and text"

"""The envelope that every checkpoint travels in, and the one place that builds, checks and writes it."""

# Values of any type pass through here, so "partially unknown" is the normal case and says nothing.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

import orjson

from jianmu.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jianmu.memory.checkpoint.protocol import Envelope

_ATOMS = frozenset({str, int, bool, type(None)})
_MAX_DEPTH = 250  # of a path in an error; orjson writes nothing that is deeper


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
        if all(comes_back(value) for key, value in envelope.items() if key != "state" or not state_is_json):
            return written
    except TypeError:
        pass  # what follows finds out where
    raise first_failure(envelope, _write_part) or SerializationError("envelope", "it can not be written as JSON")


def is_json_dump(state_dump: Any) -> bool:
    """Tell whether a state is a dump of the state manager: that tells its source, and is JSON data."""
    return isinstance(getattr(state_dump, "source", None), str)


def comes_back(value: Any) -> bool:
    """Tell whether a value comes back equal from JSON.

    Its writer turns tuples into lists, dates into text and NaN into null without a word, so this reads what it wrote.

    Raises:
        TypeError: the value can not be written.
    """
    kind = type(value)
    if kind in _ATOMS or (kind is dict and _ATOMS.issuperset(map(type, value.values()))):
        return True
    return orjson.loads(orjson.dumps(value)) == value


def copied(value: Any) -> Any:
    """Copy a value deeply: `copy.deepcopy`, but quick where there are plain dicts and lists, as there are in states."""
    kind = type(value)
    if kind is dict:
        return {key: item if type(item) in _ATOMS else copied(item) for key, item in value.items()}
    if kind is list:
        return [item if type(item) in _ATOMS else copied(item) for item in value]
    return value if kind in _ATOMS else copy.deepcopy(value)


def first_failure(envelope: Envelope, attempt: Callable[[Any], object]) -> SerializationError | None:
    """Find out which part of an envelope something can not be done to.

    Args:
        envelope: the envelope.
        attempt: raises an exception for a value that has such a part in it, or is one.

    Returns:
        An error that names the path of the innermost such part and says what was raised; None when there is none.
    """
    failures = (_innermost(value, attempt, key, 0) for key, value in envelope.items())
    return next(filter(None, failures), None)


def _innermost(value: Any, attempt: Callable[[Any], object], path: str, depth: int) -> SerializationError | None:
    try:
        attempt(value)
    except Exception as error:
        parts = _parts(value) if depth < _MAX_DEPTH else ()
        failures = (_innermost(part, attempt, path + name, depth + 1) for name, part in parts)
        return next(filter(None, failures), None) or SerializationError(path, str(error))
    return None


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f".{key}" if isinstance(key, str) else f"[{key!r}]", item) for key, item in value.items()]
    if isinstance(value, list):
        return [(f"[{index}]", item) for index, item in enumerate(value)]
    return []


def _write_part(value: Any) -> None:
    if not comes_back(value):
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        raise TypeError(f"{kind} is no JSON data and would come back as something else; give plain dicts and lists")
    orjson.dumps(value)


def _is_step(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

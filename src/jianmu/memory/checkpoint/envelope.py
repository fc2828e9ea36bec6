"""The envelope that every checkpoint travels in, and the one place that builds and checks it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jianmu.memory.checkpoint.protocol import Envelope


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
    if not isinstance(step, int) or isinstance(step, bool) or not isinstance(state, dict):
        return None
    tree, metadata = candidate.get("tree"), candidate.get("runtime_metadata")
    return {
        **candidate,
        "tree": tree if isinstance(tree, dict) else None,
        "runtime_metadata": metadata if isinstance(metadata, dict) else {},
    }

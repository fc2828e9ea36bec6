"""What changed between two checkpoints, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from jianmu.serialization import same

if TYPE_CHECKING:
    from jianmu.memory.checkpoint.protocol import Envelope

ABSENT = "<absent>"


@dataclass(frozen=True, kw_only=True)
class CheckpointDiff:
    """What a later checkpoint has that an earlier one had not, and the other way round.

    Attributes:
        steps: the steps of the two.
        state: path of a value in the state to its old and new value; `ABSENT` stands for none.
        tree: node path to its old and new Status name, or `ABSENT`.
    """

    steps: tuple[int, int]
    state: dict[str, tuple[Any, Any]] = field(default_factory=dict[str, tuple[Any, Any]])
    tree: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


def diff_checkpoints(old: Envelope, new: Envelope) -> CheckpointDiff:
    """Compare two checkpoints.

    Args:
        old: one envelope, as ``get_checkpoint_at`` returns it.
        new: another one.

    Example:
        >>> old = {"step": 1, "state": {"lines": ["a"]}, "tree": {"root": "RUNNING"}, "runtime_metadata": {}}
        >>> new = {"step": 2, "state": {"lines": ["a", "b"]}, "tree": {"root": "SUCCESS"}, "runtime_metadata": {}}
        >>> diff_checkpoints(old, new).state
        {'lines[1]': ('<absent>', 'b')}
    """
    state: dict[str, tuple[Any, Any]] = {}
    _compare(old["state"], new["state"], "", state)
    tree: dict[str, tuple[Any, Any]] = {}
    before: dict[str, str] = old.get("tree") or {}
    after: dict[str, str] = new.get("tree") or {}
    for path in {**before, **after}:
        pair = (before.get(path, ABSENT), after.get(path, ABSENT))
        if pair[0] != pair[1]:
            tree[path] = pair
    return CheckpointDiff(steps=(old["step"], new["step"]), state=state, tree=tree)


def _compare(old: Any, new: Any, path: str, found: dict[str, tuple[Any, Any]]) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        before, after = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
        for key in before | after:
            place = f"{path}.{key}" if path else key
            _compare(before.get(key, ABSENT), after.get(key, ABSENT), place, found)
    elif isinstance(old, list) and isinstance(new, list):
        first, second = cast("list[Any]", old), cast("list[Any]", new)
        for index in range(max(len(first), len(second))):
            left = first[index] if index < len(first) else ABSENT
            right = second[index] if index < len(second) else ABSENT
            _compare(left, right, f"{path}[{index}]", found)
    elif not same(old, new):
        found[path] = (old, new)

"""What became of a restore, and what can not be kept."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RestoreReport:
    """What a restore did, as node paths.

    Attributes:
        restored: nodes that are as they were saved.
        new: nodes that the saved tree did not have, or had as another class; they start afresh.
        dropped: nodes that this tree no longer has.
        restarted: leaves whose work died with the process; they start again at the next tick.
        invalidated: nodes that could not go on and start again, such as a composite whose running child is gone.
        warnings: what could not be restored exactly, in words.
        exact: whether everything was restored exactly.
    """

    restored: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()
    invalidated: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    exact: bool = True


@dataclass(frozen=True, kw_only=True)
class RestoreProblem:
    """A node whose hidden state a checkpoint can not keep.

    Attributes:
        path: the node.
        reason: what is lost, and what to do.
    """

    path: str
    reason: str

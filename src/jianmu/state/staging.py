"""Writes that wait until their leaf is done.

A snapshot is honest only if a leaf's writes and its completion become visible together. While a leaf's task runs, its
updates gather in a `Stage`; the tick that sees the task done commits them.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

_current: ContextVar[Stage | None] = ContextVar("jianmu_stage", default=None)


class Stage:
    """The updates of one leaf, in the order they were made.

    Args:
        owner: the state manager they are meant for; updates of another one apply at once.
    """

    def __init__(self, owner: object) -> None:
        self.owner = owner
        self.updates: list[Mapping[str, Any]] = []

    def pending(self, field: str) -> list[Any]:
        """Return the staged values of one field, oldest first."""
        return [update[field] for update in self.updates if field in update]


def current_stage(owner: object) -> Stage | None:
    """Return the stage that this manager's updates go to here, or None when they apply at once."""
    stage = _current.get()
    return stage if stage is not None and stage.owner is owner else None


@contextmanager
def staged(stage: Stage | None) -> Generator[None]:
    """Send the updates made in this block, and in tasks started from it, to a stage.

    Args:
        stage: where they go; None applies them at once, as outside any leaf.
    """
    token = _current.set(stage)
    try:
        yield
    finally:
        _current.reset(token)

"""Remembers what was worked out for messages that are in every prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
R = TypeVar("R")


class Memo(Generic[T, R]):
    """Calls a function once per object, for objects that never change.

    Args:
        function: what is worked out.
    """

    def __init__(self, function: Callable[[T], R]) -> None:
        self._function = function
        self._known: dict[int, tuple[T, R]] = {}  # the object is kept, so that no other one gets its id
        self._used: dict[int, tuple[T, R]] = {}

    def __call__(self, item: T) -> R:
        """Return what the function gives."""
        key = id(item)
        entry = self._used.get(key)
        if entry is None:
            entry = self._used[key] = self._known.get(key) or (item, self._function(item))
        return entry[1]

    def forget_unused(self) -> None:
        """Drop what was not asked for since this was called last."""
        self._known, self._used = self._used, {}

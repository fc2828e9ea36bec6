"""Reducers: how a new value joins the one a field already has.

A field without a reducer is replaced. With ``Annotated[T, reducer]`` the state manager calls ``reducer(old, new)`` and
stores what it returns. Any function of two arguments will do, ``operator.add`` and ``max`` among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from jianmu.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")
K = TypeVar("K")

Reducer: TypeAlias = Callable[[Any, Any], Any]


class Ephemeral:
    """Marks a field that is never saved and is back at its default after a restore.

    Example:
        >>> from typing import Annotated
        >>> from pydantic import BaseModel
        >>> class State(BaseModel):
        ...     scratch: Annotated[dict[str, int], Ephemeral] = {}
    """


def append(old: list[T], new: T | list[T] | tuple[T, ...]) -> list[T]:
    """Add items at the end of a list.

    The state manager knows this reducer: it checks and stores only the new items, however long the list is.

    Args:
        old: the list so far.
        new: one item, or a list or tuple of items.

    Example:
        >>> append([1], 2), append([1], [2, 3])
        ([1, 2], [1, 2, 3])
    """
    return [*old, *as_items(new)]


def as_items(new: Any) -> list[Any]:
    """Return what `append` would add, as a list."""
    return list(cast("list[Any]", new)) if isinstance(new, (list, tuple)) else [new]


def merge(old: Mapping[K, T], new: Mapping[K, T]) -> dict[K, T]:
    """Update a dict key by key; keys that ``new`` lacks stay.

    Example:
        >>> merge({"a": 1, "b": 1}, {"b": 2})
        {'a': 1, 'b': 2}
    """
    return {**old, **new}


def union(old: set[T], new: set[T]) -> set[T]:
    """Join two sets."""
    return old | new


def keep_last(count: int) -> Callable[[list[Any], Any], list[Any]]:
    """Make a reducer that appends and keeps only the newest items.

    Args:
        count: how many items stay, at least 1.

    Example:
        >>> keep_last(2)([1, 2], 3)
        [2, 3]
    """
    if count < 1:
        raise ConfigurationError(f"keep_last({count}): keep at least 1 item")

    def reducer(old: list[Any], new: Any) -> list[Any]:
        return append(old, new)[-count:]

    return reducer

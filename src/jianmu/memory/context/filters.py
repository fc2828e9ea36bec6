"""Filters: they choose from the groups of a history before the token budget does.

A filter is any callable that takes groups and returns some of them, in the same order. It may replace a group by a
shorter form of it (`Group.with_results_cleared`). Whatever it drops, the last user's message stays in the prompt.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from jianmu.errors import ConfigurationError, ContextError
from jianmu.memory.context.groups import Group, from_turn_start

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from jianmu.messages import Role

ContextFilter: TypeAlias = Callable[[Sequence[Group]], Sequence[Group]]


@dataclass(frozen=True)
class WindowFilter:
    """Keeps the newest groups, and the user's message that opened the turn in which they begin.

    Args:
        last: how many groups, at least 1.
    """

    last: int

    def __post_init__(self) -> None:
        _at_least(1, "last", self.last)

    def __call__(self, groups: Sequence[Group]) -> Sequence[Group]:
        """Keep the newest groups."""
        return from_turn_start(groups, max(0, len(groups) - self.last))


@dataclass(frozen=True)
class ClearToolResultsFilter:
    """Replaces old tool results by a short notice.

    Args:
        keep_last: the results of this many newest groups with calls stay.
    """

    keep_last: int = 3

    def __post_init__(self) -> None:
        _at_least(0, "keep_last", self.keep_last)

    def __call__(self, groups: Sequence[Group]) -> Sequence[Group]:
        """Clear the results in all but the newest groups with calls."""
        exchanges = [position for position, group in enumerate(groups) if group.results]
        old = frozenset(exchanges[: max(0, len(exchanges) - self.keep_last)])
        return [group.with_results_cleared() if position in old else group for position, group in enumerate(groups)]


@dataclass(frozen=True)
class RoleFilter:
    """Drops every group that holds a message of certain roles.

    Args:
        drop: the roles; ``"tool"`` drops calls together with their results.
    """

    drop: Collection[Role]

    def __call__(self, groups: Sequence[Group]) -> Sequence[Group]:
        """Drop the groups of these roles."""
        return [group for group in groups if not any(message.role in self.drop for message in group.messages)]


def apply_filters(groups: Sequence[Group], filters: Iterable[ContextFilter]) -> list[Group]:
    """Apply filters in order; the last user's message is put back if they drop it.

    Raises:
        ContextError: a filter returned groups that are not part of its input, in another order, or torn apart.
    """
    kept = list(groups)
    for chosen in filters:
        kept = _checked(chosen, kept)
    last_user = next((group for group in reversed(groups) if group.role == "user"), None)
    if last_user is not None and all(group.index != last_user.index for group in reversed(kept)):
        insort(kept, last_user, key=lambda group: group.index)
    return kept


def _checked(chosen: ContextFilter, groups: list[Group]) -> list[Group]:
    given = {group.index: group for group in groups}
    kept = list(chosen(groups))
    indexes = [group.index for group in kept]
    if indexes != sorted(set(indexes)) or not given.keys() >= set(indexes):
        raise ContextError(f"{chosen!r} has to return some of the groups it was given, in the same order")
    for group in kept:
        if group is not given[group.index]:
            group.check()
    return kept


def _at_least(least: int, name: str, value: int) -> None:
    if value < least:
        raise ConfigurationError(f"{name} is {value}; use a number of at least {least}")

"""Makes a history fit: first old tool results are cleared, then the oldest groups go.

Prompt caches reward requests that begin like the one before. So what is cut is cut in steps: of all turns at which the
cut may be, the one with the roundest number is taken. As the history grows that stays the same for many requests, then
moves on by a stretch. It follows from the history alone, hence it is the same after a restart.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jianmu.memory.context.groups import Group, flatten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jianmu.messages import Message


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A history that fits.

    Attributes:
        groups: what stays.
        dropped: the groups that went, in order.
        cleared: how many groups had their tool results cleared.
        tokens: the size of what stays.
    """

    groups: list[Group]
    dropped: list[Group]
    cleared: int
    tokens: int


class Ladder:
    """The history of one prompt on its way into a budget.

    Sizes are asked for from the newest group backwards and only as far as the room reaches, so that a long history
    costs no more than a short one.

    Args:
        groups: the history.
        size: the tokens of a message.
        clear: the short form of a tool result.
        keep_results: the tool results of this many newest groups with calls are never cleared.
        low_water: a window that has to be cut may go down to this share of the room, so that it has space to grow.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        *,
        size: Callable[[Message], int],
        clear: Callable[[Message], Message],
        keep_results: int,
        low_water: float,
    ) -> None:
        self._groups = groups
        self._size = size
        self._clear = clear
        self._low_water = low_water
        self._clear_before = 0
        self._keep_results = keep_results
        self._cleared: dict[int, Group] = {}
        self._users = [position for position, group in enumerate(groups) if group.role == "user"]

    @property
    def minimum(self) -> int:
        """The tokens of what has to stay: the last user's message, and the newest group."""
        return self._cost(len(self._groups) - 1, self._tokens(len(self._groups) - 1)) if self._groups else 0

    def fit(self, room: int, *, steady: bool = True) -> Fitted:
        """Shorten the history as far as needed.

        Args:
            room: tokens it may take; at least `minimum`.
            steady: cut where the next requests are likely to be cut too; False cuts down to the low-water mark.
        """
        suffixes = self._suffixes(room)
        if 0 not in suffixes:
            self._clear_before = self._clearing_point()
            suffixes = self._suffixes(room)
        if 0 in suffixes or not self._groups:
            return self._result(0)
        return self._result(self._cut(room, suffixes, steady))

    def _cut(self, room: int, suffixes: dict[int, int], steady: bool) -> int:
        costs = {start: self._cost(start, tokens) for start, tokens in suffixes.items()}
        fitting = sorted(start for start, cost in costs.items() if cost <= room)
        low = next((start for start in fitting if costs[start] <= self._low_water * room), fitting[-1])
        if not steady:
            return low
        return max((start for start in fitting if start <= low), key=self._steadiness)

    def _steadiness(self, start: int) -> tuple[bool, int, int]:
        """Rank a place to cut: the beginning of a turn, then the roundest number, then the earliest."""
        turn = bisect_left(self._users, start)
        is_turn = turn < len(self._users) and self._users[turn] == start
        return is_turn, _roundness(turn if is_turn else start), -start

    def _clearing_point(self) -> int:
        """Choose the position before which results are cleared; ``keep_results`` to twice as many stay behind it."""
        exchanges = [position for position, group in enumerate(self._groups) if group.results]
        steps = max(0, len(exchanges) - self._keep_results) // self._keep_results
        return exchanges[steps * self._keep_results] if steps else 0

    def _suffixes(self, room: int) -> dict[int, int]:
        """Return start -> tokens of everything from there on, as far as the room reaches."""
        sums: dict[int, int] = {}
        tokens = 0
        for start in range(len(self._groups) - 1, -1, -1):
            tokens += self._tokens(start)
            if tokens > room:
                break
            sums[start] = tokens
        return sums

    def _cost(self, start: int, tokens: int) -> int:
        opener = self._opener(start)
        return tokens + (self._tokens(opener) if opener < start else 0)

    def _opener(self, start: int) -> int:
        """Return the position of the user's message that opened the turn of ``start``; ``start`` itself without one."""
        at = bisect_right(self._users, start)
        return self._users[at - 1] if at else start

    def _tokens(self, position: int) -> int:
        return sum(map(self._size, self._group(position).messages))

    def _group(self, position: int) -> Group:
        if position >= self._clear_before or not self._groups[position].results:
            return self._groups[position]
        if position not in self._cleared:
            self._cleared[position] = self._groups[position].with_results(self._clear)
        return self._cleared[position]

    def _result(self, start: int) -> Fitted:
        opener = self._opener(start) if self._groups else start
        positions = [*([opener] if opener < start else []), *range(start, len(self._groups))]
        groups = [self._group(position) for position in positions]
        return Fitted(
            groups=groups,
            dropped=[group for position, group in enumerate(self._groups[:start]) if position != opener],
            cleared=sum(group is not self._groups[position] for position, group in zip(positions, groups, strict=True)),
            tokens=sum(map(self._size, flatten(groups))),
        )


def _roundness(number: int) -> int:
    """How often a number can be halved; 0 is the roundest of all."""
    return (number & -number).bit_length() if number else 64

"""Loops around a subtree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py_trees.common import Status
from py_trees.decorators import Decorator

from jianmu.errors import ConfigurationError

if TYPE_CHECKING:
    from py_trees.behaviour import Behaviour


class LoopUntilSuccess(Decorator):
    """Runs its child again after each FAILURE, until it succeeds.

    Each round starts in a tick of its own, so that a checkpoint lies between two rounds.

    Args:
        name: the behaviour's name.
        child: the subtree that is repeated.
        max_rounds: FAILURE after this many failed rounds; None for no limit.

    Attributes:
        rounds: failed rounds so far; saved with the tree.
    """

    def __init__(self, name: str, child: Behaviour, *, max_rounds: int | None = None) -> None:
        if max_rounds is not None and max_rounds < 1:
            raise ConfigurationError(f"loop {name!r}: max_rounds is {max_rounds}; it must be at least 1, or None")
        super().__init__(name=name, child=child)
        self.max_rounds = max_rounds
        self.rounds = 0

    def initialise(self) -> None:
        """Begin at round 0."""
        self.rounds = 0

    def update(self) -> Status:
        """Turn the child's FAILURE into another round."""
        if self.decorated.status != Status.FAILURE:
            return self.decorated.status
        self.rounds += 1
        self.feedback_message = f"round {self.rounds} failed"
        return Status.FAILURE if self.rounds == self.max_rounds else Status.RUNNING

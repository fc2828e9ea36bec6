"""Crash a run at every place it can crash, resume it, and compare with a run that was never interrupted.

What must hold for any tree::

    report = await crash_everywhere(make_tree, make_state)
    report.check()

The crash is simulated in the process: from the chosen moment on nothing the run does reaches the checkpointer or the
`OutsideWorld`, as if the machine had lost its power; then a new tree and a new state resume from what was saved.
Moments are: before and after each save, and every point at which a leaf's coroutine begins, waits, goes on, or ends.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from types import coroutine
from typing import TYPE_CHECKING, Any

from jianmu.behaviours import NOT_DONE
from jianmu.memory.checkpoint.in_memory import InMemoryCheckpointer
from jianmu.runtime import ReactiveRunner, RunResult
from jianmu.serialization import same

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Mapping

    from py_trees.behaviour import Behaviour
    from py_trees.common import Status

    from jianmu.memory.checkpoint.protocol import CheckpointerProtocol, Envelope
    from jianmu.state import StateManager

THREAD = "crash"


class SimulatedCrash(BaseException):
    """The moment after which the process no longer exists."""


class _Fate:
    """Counts the moments of a run and ends it at a chosen one.

    Args:
        cut: the moment to crash at, counted from 0; None to live.
    """

    def __init__(self, cut: int | None = None) -> None:
        self._cut = cut
        self.moments = 0
        self.dead = False

    def moment(self) -> None:
        """Pass one moment.

        Raises:
            SimulatedCrash: this is the one, or it has passed.
        """
        if self.dead or self.moments == self._cut:
            self.dead = True
            raise SimulatedCrash
        self.moments += 1


class OutsideWorld:
    """Stands for everything outside the process: what was done to it stays done when the run crashes.

    Use `do` as the function of ``self.effect`` and `find` as its ``reconcile``.

    Attributes:
        done: names of the effects that happened, in order.
    """

    def __init__(self) -> None:
        self.done: list[str] = []
        self._results: dict[str, Any] = {}
        self._fate = _Fate()

    async def do(self, name: str, result: Any = None, *, idempotency_key: str = "") -> Any:
        """Let an effect happen.

        Args:
            name: what is counted.
            result: what it returns.
            idempotency_key: filled in by the journal.
        """
        self._fate.moment()
        self.done.append(name)
        self._results[idempotency_key] = result
        self._fate.moment()
        return result

    def find(self, idempotency_key: str) -> Any:
        """Return the result of an effect that happened, or `NOT_DONE`."""
        return self._results.get(idempotency_key, NOT_DONE)


@dataclass
class CrashReport:
    """What came of crashing a run.

    Attributes:
        cuts: how many crashes were made.
        wrong_states: moments after which the final state differed from the straight run's.
        wrong_effects: moments after which effects were missing or done twice.
        wrong_statuses: moments after which the root ended with another status.
    """

    cuts: int = 0
    wrong_states: list[int] = field(default_factory=list[int])
    wrong_effects: list[int] = field(default_factory=list[int])
    wrong_statuses: list[int] = field(default_factory=list[int])

    def check(self) -> None:
        """Raise AssertionError if any crash left a trace."""
        if self.wrong_states or self.wrong_effects or self.wrong_statuses:
            raise AssertionError(f"crashes left traces: {self}")


async def crash_everywhere(
    make_tree: Callable[[OutsideWorld], Behaviour],
    make_state: Callable[[], StateManager[Any]],
    *,
    input_data: Mapping[str, Any] | None = None,
    make_checkpointer: Callable[[], CheckpointerProtocol] = InMemoryCheckpointer,
    checkpoint_interval: int = 1,
    max_cuts: int | None = None,
    seed: int = 0,
    view: Callable[[StateManager[Any]], Any] | None = None,
) -> CrashReport:
    """Run a tree, crash it at every moment of its run, resume it each time, and compare.

    Args:
        make_tree: builds the tree; it must do all its effects on the world it is given.
        make_state: builds the state manager.
        input_data: passed to the first run.
        make_checkpointer: builds the backend to save on.
        checkpoint_interval: save every so many ticks.
        max_cuts: crash at this many moments, chosen at random; None for all.
        seed: of that choice.
        view: what of the final state is compared; by default its whole dump. Branches of a Parallel finish in an order
            that a crash may change: sort what they append.

    Returns:
        The counts; `CrashReport.check` raises if any is not zero.
    """
    trial = _Trial(make_tree, make_state, input_data, make_checkpointer, checkpoint_interval, view or _whole_dump)
    straight, moments = await trial.run(None)
    cuts = range(moments)
    chosen = cuts if max_cuts is None or max_cuts >= moments else random.Random(seed).sample(cuts, max_cuts)  # noqa: S311
    report = CrashReport()
    for cut in chosen:
        ended, _ = await trial.run(cut)
        report.cuts += 1
        if ended.status != straight.status:
            report.wrong_statuses.append(cut)
        if not same(ended.state, straight.state):
            report.wrong_states.append(cut)
        if Counter(ended.effects) != Counter(straight.effects):
            report.wrong_effects.append(cut)
    return report


@dataclass
class _Ended:
    status: Status
    state: Any
    effects: list[str]


@dataclass
class _Trial:
    make_tree: Callable[[OutsideWorld], Behaviour]
    make_state: Callable[[], StateManager[Any]]
    input_data: Mapping[str, Any] | None
    make_checkpointer: Callable[[], CheckpointerProtocol]
    interval: int
    view: Callable[[StateManager[Any]], Any]

    async def run(self, cut: int | None) -> tuple[_Ended, int]:
        """Run once, crash at ``cut``, resume; return how it ended and how many moments the first life had."""
        world, checkpointer, fate = OutsideWorld(), self.make_checkpointer(), _Fate(cut)
        try:
            ended = await self._live(world, checkpointer, fate, self.input_data)
        except SimulatedCrash:
            fresh = checkpointer.get_checkpoint(THREAD) is None
            ended = await self._live(world, checkpointer, _Fate(), self.input_data if fresh else None)
        return ended, fate.moments

    async def _live(
        self,
        world: OutsideWorld,
        checkpointer: CheckpointerProtocol,
        fate: _Fate,
        input_data: Mapping[str, Any] | None,
    ) -> _Ended:
        world._fate = fate
        state = self.make_state()
        runner = ReactiveRunner(self.make_tree(world), state)
        runner._drive = lambda work: _driven(work, fate)
        result: RunResult = await runner.run(
            input_data,
            checkpointer=_MortalCheckpointer(checkpointer, fate),
            thread_id=THREAD,
            checkpoint_interval=self.interval,
        )
        return _Ended(result.status, self.view(state), world.done)


class _MortalCheckpointer:
    """Passes saves on while the process lives."""

    local = True

    def __init__(self, inner: CheckpointerProtocol, fate: _Fate) -> None:
        self._inner = inner
        self._fate = fate

    def save_checkpoint(
        self,
        thread_id: str,
        step: int,
        state_dump: Mapping[str, Any],
        tree_state: Mapping[str, str] | None = None,
        runtime_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self._fate.moment()
        self._inner.save_checkpoint(thread_id, step, state_dump, tree_state, runtime_metadata)
        self._fate.moment()

    def get_checkpoint(self, thread_id: str) -> Envelope | None:
        return self._inner.get_checkpoint(thread_id)


async def _driven(work: Callable[[], Coroutine[Any, Any, Any]], fate: _Fate) -> Any:
    fate.moment()
    return await _stepped(work(), fate)


@coroutine
def _stepped(work: Coroutine[Any, Any, Any], fate: _Fate) -> Generator[Any, Any, Any]:
    """Drive a coroutine, passing one moment at each of its steps."""
    error: BaseException | None = None
    while True:
        try:
            waited_for = work.send(None) if error is None else work.throw(error)
        except StopIteration as stop:
            fate.moment()
            return stop.value
        error = None
        fate.moment()
        try:
            yield waited_for
        except BaseException as thrown:
            error = thrown


def _whole_dump(state: StateManager[Any]) -> Any:
    return dict(state.dump_checkpoint())

"""T2 in the process: random agents are crashed at random moments; no wrong state, no effect twice (R24)."""

import asyncio
import random
from collections import Counter
from typing import Annotated

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py_trees.behaviour import Behaviour
from py_trees.common import ParallelPolicy, Status
from py_trees.composites import Parallel, Selector, Sequence
from py_trees.decorators import Count, FailureIsSuccess, Inverter, Repeat, Retry
from pydantic import BaseModel

from jianmu import StateManager
from jianmu.behaviours import AsyncBehaviour, FunctionBehaviour, LoopUntilSuccess
from jianmu.state import append
from jianmu.testing import CrashReport, OutsideWorld, crash_everywhere


class Log(BaseModel):
    lines: Annotated[list[str], append] = []
    count: int = 0


class Work(AsyncBehaviour):
    """Writes, perhaps does an effect, writes again, and ends as it is told."""

    def __init__(self, name: str, world: OutsideWorld, kind: str, waits: int) -> None:
        super().__init__(name)
        self._world, self._kind, self._waits = world, kind, waits

    async def run(self) -> Status:
        self.state.update(lines=f"{self.name} begins", count=self.state.get("count") + 1)
        for _ in range(self._waits):
            await asyncio.sleep(0)
        if "effect" in self._kind:
            result = await self.effect("do", self._world.do, self.name, self._waits, reconcile=self._world.find)
            self.state.update(lines=f"{self.name} got {result}")
        if "raise" in self._kind:
            raise ConnectionError(self.name)
        self.state.update(lines=f"{self.name} ends")
        return Status.FAILURE if "fail" in self._kind else Status.SUCCESS


LEAVES = ("write", "effect", "effect fail", "effect raise", "fail", "effect", "quick")
INNER = ("Sequence", "Selector", "Repeat", "Retry", "Loop", "Inverter", "FailureIsSuccess", "Count")


class Drawn:
    """A recipe drawn once, from which any number of equal trees is built."""

    def __init__(self, rng: random.Random, depth: int, parallel: bool) -> None:
        kinds = (*INNER, "Sequence", "Sequence", *(("Parallel",) * 4 if parallel else ()))
        self.kind = rng.choice(kinds) if depth else rng.choice(LEAVES)
        self.number = rng.choice((1, 2, 3))
        one_child = ("Repeat", "Retry", "Loop", "Inverter", "FailureIsSuccess", "Count")
        count = 0 if not depth else 1 if self.kind in one_child else rng.choice((2, 3))
        self.children = [Drawn(rng, rng.choice((0, depth - 1)), parallel) for _ in range(count)]

    def build(self, world: OutsideWorld, name: str = "n") -> Behaviour:
        children = [child.build(world, f"{name}{place}") for place, child in enumerate(self.children)]
        match self.kind:
            case "Sequence":
                return Sequence(name, memory=True, children=children)
            case "Selector":
                return Selector(name, memory=True, children=children)
            case "Parallel":
                return Parallel(name, ParallelPolicy.SuccessOnAll(), children)
            case "Repeat":
                return Repeat(name, children[0], num_success=self.number)
            case "Retry":
                return Retry(name, children[0], num_failures=self.number)
            case "Loop":
                return LoopUntilSuccess(name, children[0], max_rounds=self.number)
            case "Inverter":
                return Inverter(name, children[0])
            case "FailureIsSuccess":
                return FailureIsSuccess(name, children[0])
            case "Count":
                return Count(name, children[0])
            case "quick":
                return FunctionBehaviour(name, lambda state: state.update(lines=name) or True)
        return Work(name, world, self.kind, self.number)


def crash(seed: int, cuts: int, *, parallel: bool = False) -> CrashReport:
    recipe = Drawn(random.Random(seed), 3, parallel)
    return asyncio.run(crash_everywhere(recipe.build, lambda: StateManager(Log), max_cuts=cuts, seed=seed))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_a_crash_at_any_moment_leaves_no_trace(seed):
    """T2, R24: final state, status and effects equal those of the straight run."""
    crash(seed, 12).check()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_racing_branches_end_with_the_same_status(seed):
    """Which branch of a Parallel is cancelled by its sibling's failure is a matter of timing; the end is not."""
    assert crash(seed, 10, parallel=True).wrong_statuses == []


def test_without_staging_half_a_leaf_would_be_saved(monkeypatch):
    """The proof can fail: writes that are not staged are noticed."""
    original = StateManager.update

    def at_once(self, changes=None, /, *, immediate=False, **fields):
        original(self, changes, immediate=True, **fields)

    monkeypatch.setattr(StateManager, "update", at_once)
    assert sum(len(crash(seed, 10).wrong_states) for seed in range(12)) > 5


def test_without_the_journal_effects_would_be_done_twice(monkeypatch):
    """The proof can fail: effects outside the journal are noticed."""

    async def plain(self, key, call, *args, reconcile=None, **kwargs):
        return await call(*args, **kwargs)

    monkeypatch.setattr(AsyncBehaviour, "effect", plain)
    assert sum(len(crash(seed, 10).wrong_effects) for seed in range(12)) > 5


@pytest.mark.proof
def test_twenty_thousand_crashes():
    """T2, the long version: prints its counts, those of racing branches apart."""
    for parallel, wanted in ((False, 15_000), (True, 5_000)):
        count: Counter[str] = Counter()
        while count["crashes"] < wanted:
            report = crash(count["trees"], 25, parallel=parallel)
            count["trees"] += 1
            count["crashes"] += report.cuts
            count["wrong states"] += len(report.wrong_states)
            count["wrong effects"] += len(report.wrong_effects)
            count["wrong statuses"] += len(report.wrong_statuses)
        print(f"\ncrashes{' with racing branches' if parallel else ''}: {dict(count)}")
        assert count["wrong statuses"] == 0
        assert parallel or count["wrong states"] == count["wrong effects"] == 0

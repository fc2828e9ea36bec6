"""T1, T3: a tree that is restored at any tick goes on exactly as one that was never interrupted (R24)."""

import random
from collections import Counter

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py_trees.common import Status
from py_trees.composites import Composite

from jianmu.runtime.restore import RestorePolicy, TreeRecorder, TreeRestorer, codecs
from jianmu.testing.trees import Recipe, TracedTree, fake_clock, forget_blackboard, random_recipe, recipes

TICKS = 8


def straight(recipe: Recipe) -> tuple[list, list[bytes]]:
    """Tick without interruption; return each tick's trace and the snapshot after it."""
    forget_blackboard()
    with fake_clock() as clock:
        tree = TracedTree(recipe)
        recorder = TreeRecorder(tree.root)
        traces, snapshots = [], []
        for _ in range(TICKS):
            traces.append(tree.tick())
            snapshots.append(orjson.dumps(list(recorder.snapshot())))
            clock.seconds += 1.0
    return traces, snapshots


def resumed(recipe: Recipe, snapshot: bytes, ticks_done: int, *, times: int = 1, rules=None) -> list:
    """Restore into a new tree on a machine that was booted anew; return the traces of the ticks that were left."""
    forget_blackboard()
    with fake_clock() as clock:
        clock.seconds += ticks_done - 1.0
        clock.booted = 777.0
        tree = TracedTree(recipe)
        recorder = TreeRecorder(tree.root)
        statuses, exact = orjson.loads(snapshot)
        for _ in range(times):
            restorer = TreeRestorer(recorder, RestorePolicy.STRICT, exact)
            restorer.restore_statuses(statuses)
            if rules is None or rules.pointers:
                restorer.repair_pointers()
            report = restorer.finish()
            assert report.exact or rules is not None, report
        traces = []
        for _ in range(ticks_done, TICKS):
            clock.seconds += 1.0
            traces.append(tree.tick())
    return traces


def divergent_cuts(recipe: Recipe, **options) -> list[int]:
    traces, snapshots = straight(recipe)
    return [cut for cut in range(1, TICKS) if resumed(recipe, snapshots[cut - 1], cut, **options) != traces[cut:]]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(recipes())
def test_interrupted_at_every_tick_equals_the_straight_run(recipe):
    """T1, R24: nodes visited, methods called, statuses and tip of every later tick are equal."""
    assert divergent_cuts(recipe) == []


@settings(max_examples=40, deadline=None)
@given(recipes(), st.integers(1, TICKS - 1))
def test_restoring_twice_is_restoring_once(recipe, cut):
    """T3."""
    traces, snapshots = straight(recipe)
    assert resumed(recipe, snapshots[cut - 1], cut, times=2) == traces[cut:]


@settings(max_examples=40, deadline=None)
@given(recipes(), st.integers(1, TICKS - 1))
def test_a_tree_that_ran_in_this_process_is_restored_as_well_as_a_new_one(recipe, cut):
    traces, snapshots = straight(recipe)
    forget_blackboard()
    with fake_clock() as clock:
        tree = TracedTree(recipe)
        recorder = TreeRecorder(tree.root)
        for _ in range(TICKS):
            tree.tick()
            clock.seconds += 1.0
        clock.seconds = 1_000_000.0 + cut - 1.0
        restorer = TreeRestorer(recorder, RestorePolicy.STRICT, orjson.loads(snapshots[cut - 1])[1])
        restorer.restore_statuses(orjson.loads(snapshots[cut - 1])[0])
        restorer.repair_pointers()
        restorer.finish()
        for expected in traces[cut:]:
            clock.seconds += 1.0
            assert tree.tick() == expected


class Rules:
    """Which rules of the restore are followed."""

    def __init__(self, pointers: bool = True) -> None:
        self.pointers = pointers


def count_divergences(seed: int, cuts: int, **options) -> Counter[str]:
    rng, count = random.Random(seed), Counter()
    while count["cuts"] < cuts:
        count["trees"] += 1
        count["cuts"] += TICKS - 1
        count["divergent"] += len(divergent_cuts(random_recipe(rng), **options))
    return count


def test_without_pointer_repair_restored_trees_do_diverge():
    """The proof can fail: leaving out a rule is noticed."""
    assert count_divergences(1, 700, rules=Rules(pointers=False))["divergent"] > 5


@pytest.mark.parametrize("lost", ["attributes", "codec"])
def test_without_private_attributes_or_clocks_restored_trees_do_diverge(lost, monkeypatch):
    """The proof can fail: counters and clocks matter."""
    from jianmu.runtime.restore.snapshot import NodeRecord

    original = NodeRecord.dump

    def forgetful(self, unkept):
        return {key: value for key, value in original(self, unkept).items() if key != lost}

    monkeypatch.setattr(NodeRecord, "dump", forgetful)
    assert count_divergences(2, 1400)["divergent"] > 5


def test_demoting_running_leaves_first_makes_restored_trees_diverge(monkeypatch):
    """The proof can fail: leaves before pointers is the classic bug."""
    original = TreeRestorer.restore_statuses

    def hasty(self, statuses):
        original(self, statuses)
        for node in self._recorder.paths.values():
            if not node.children and node.status == Status.RUNNING:
                node.status = Status.INVALID
        self._saved = {path: node.status.name for path, node in self._recorder.paths.items()}

    monkeypatch.setattr(TreeRestorer, "restore_statuses", hasty)
    rng = random.Random(3)
    pointers_lost = 0
    for _ in range(60):
        recipe = random_recipe(rng)
        _, snapshots = straight(recipe)
        statuses, exact = orjson.loads(snapshots[0])
        forget_blackboard()
        tree = TracedTree(recipe)
        exact["pointers"] = {}
        restorer = TreeRestorer(TreeRecorder(tree.root), RestorePolicy.AUTO, exact)
        restorer.restore_statuses(statuses)
        restorer.repair_pointers()
        pointers_lost += any(
            isinstance(node, Composite) and statuses[path] == "RUNNING" and node.current_child is None
            for path, node in restorer._recorder.paths.items()
        )
    assert pointers_lost > 5


@settings(max_examples=300, deadline=None)
@given(recipes(), recipes(), st.integers(0, TICKS - 1))
def test_a_changed_tree_is_restored_without_error_and_goes_on(recipe, other, cut):
    """R27: AUTO keeps what fits, never leaves a RUNNING node under one that is not, and the tree ticks on."""
    _, snapshots = straight(recipe)
    statuses, exact = orjson.loads(snapshots[cut])
    forget_blackboard()
    with fake_clock() as clock:
        tree = TracedTree(other)
        recorder = TreeRecorder(tree.root)
        restorer = TreeRestorer(recorder, RestorePolicy.AUTO, exact)
        restorer.restore_statuses(statuses)
        restorer.repair_pointers()
        report = restorer.finish()
        for node in recorder.paths.values():
            if node.status == Status.RUNNING and node.parent is not None:
                assert node.parent.status == Status.RUNNING
        assert set(report.restored) | set(report.new) == set(recorder.paths)
        assert set(report.dropped) == set(statuses) - set(recorder.paths)
        for _ in range(4):
            clock.seconds += 1.0
            tree.tick()


@settings(max_examples=60, deadline=None)
@given(recipes(), st.integers(0, TICKS - 1))
def test_statuses_alone_from_a_foreign_writer_are_restored_with_a_warning(recipe, cut):
    _, snapshots = straight(recipe)
    statuses, _ = orjson.loads(snapshots[cut])
    forget_blackboard()
    with fake_clock():
        tree = TracedTree(recipe)
        recorder = TreeRecorder(tree.root)
        restorer = TreeRestorer(recorder, RestorePolicy.AUTO, None)
        restorer.restore_statuses(statuses)
        restorer.repair_pointers()
        report = restorer.finish()
        assert not report.invalidated
        assert {path: node.status.name for path, node in recorder.paths.items()} == statuses


def test_the_clock_in_the_codecs_is_the_real_one_again():
    import time

    assert codecs.time is time


@pytest.mark.proof
def test_a_hundred_thousand_cuts():
    """T1, the long version: prints its counts."""
    count = count_divergences(20261201, 100_000)
    print(f"\nrestore: {count['trees']} trees, {count['cuts']} cuts, {count['divergent']} divergent")
    assert count["divergent"] == 0

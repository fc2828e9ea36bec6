"""Trees that can never finish are found before they run; two checkpoints are compared as data."""

import pytest
from py_trees.behaviours import Running, Success, TickCounter
from py_trees.common import ParallelPolicy, Status
from py_trees.composites import Parallel, Selector, Sequence
from py_trees.decorators import RunningIsFailure, Timeout
from py_trees.timers import Timer

from jianmu.behaviours import AsyncBehaviour, FunctionBehaviour
from jianmu.runtime import ABSENT, diff_checkpoints, lint_tree


def rules(tree) -> list[tuple[str, str]]:
    return [(finding.path, finding.rule) for finding in lint_tree(tree)]


def test_two_slow_children_of_a_sequence_without_memory_restart_for_ever():
    tree = Sequence("root", False, [AsyncBehaviour("a"), AsyncBehaviour("b")])
    assert rules(tree) == [("root", "restarts-for-ever")]
    assert "memory=True" in lint_tree(tree)[0].advice


def test_an_empty_composite_and_an_endless_leaf_are_found():
    assert rules(Selector("root", True, [Sequence("nothing", True, []), Running("ever")])) == [
        ("root/nothing", "empty"),
        ("root/ever", "never-ends"),
    ]


@pytest.mark.parametrize(
    "tree",
    [
        Sequence("memory", True, [AsyncBehaviour("a"), Timer("b", 1.0)]),
        Sequence("guarded", False, [FunctionBehaviour("ok?", lambda: True), AsyncBehaviour("work")]),
        Sequence("hidden", False, [RunningIsFailure("now", AsyncBehaviour("a")), AsyncBehaviour("b")]),
        Sequence("quick", False, [TickCounter("a", 0, Status.SUCCESS), TickCounter("b", 3, Status.SUCCESS)]),
        Timeout("limit", Running("ever"), 1.0),
        Parallel("race", ParallelPolicy.SuccessOnOne(), [Success("a"), Running("ever")]),
        Selector("reactive", False, [FunctionBehaviour("stop?", lambda: False), Running("ever")]),
    ],
    ids=lambda tree: tree.name,
)
def test_ordinary_trees_raise_no_alarm(tree):
    assert rules(tree) == []


def test_a_diff_names_every_value_that_changed():
    old = {"step": 1, "state": {"a": 1, "gone": 0, "deep": {"x": [1, 2]}}, "tree": {"r": "RUNNING", "r/a": "INVALID"}}
    new = {"step": 4, "state": {"a": True, "deep": {"x": [1, 3, 4]}}, "tree": {"r": "SUCCESS", "r/a": "INVALID"}}
    diff = diff_checkpoints(old, new)
    assert diff.steps == (1, 4)
    assert diff.state == {
        "a": (1, True),
        "gone": (0, ABSENT),
        "deep.x[1]": (2, 3),
        "deep.x[2]": (ABSENT, 4),
    }
    assert diff.tree == {"r": ("RUNNING", "SUCCESS")}
    assert diff_checkpoints(old, old).state == {}

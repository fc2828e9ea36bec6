"""Finds trees that can never finish, before they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from py_trees.behaviours import Dummy, Running, TickCounter
from py_trees.common import ParallelPolicy
from py_trees.composites import Composite, Parallel, Selector, Sequence
from py_trees.decorators import Repeat, RunningIsFailure, RunningIsSuccess, SuccessIsRunning, Timeout
from py_trees.timers import Timer

from jianmu.behaviours import AsyncBehaviour
from jianmu.runtime.restore import node_paths

if TYPE_CHECKING:
    from py_trees.behaviour import Behaviour


@dataclass(frozen=True, kw_only=True)
class LintFinding:
    """Something in a tree that is hardly meant.

    Attributes:
        path: the node.
        rule: ``restarts-for-ever``, ``never-ends`` or ``empty``.
        advice: what happens, and what to do.
    """

    path: str
    rule: str
    advice: str


def lint_tree(tree: Behaviour) -> list[LintFinding]:
    """Look for nodes that keep a tree from ever finishing. Nothing is ticked.

    Args:
        tree: the root of the tree.

    Returns:
        What was found, parents before children.

    Example:
        >>> from py_trees.composites import Sequence
        >>> [finding.rule for finding in lint_tree(Sequence("nothing to do", memory=True, children=[]))]
        ['empty']
    """
    return [finding for path, node in node_paths(tree).items() for finding in _findings(path, node)]


def _findings(path: str, node: Behaviour) -> list[LintFinding]:
    found: list[LintFinding] = []
    if isinstance(node, Composite) and not node.children:
        advice = "it has no children and ends at once; give it some or take it out"
        found.append(LintFinding(path=path, rule="empty", advice=advice))
    if isinstance(node, Sequence) and not node.memory:
        found.extend(_restarts(path, node))
    if _never_ends(node) and not _can_be_interrupted(node):
        advice = "it is RUNNING for ever and nothing above it can end it; put it under a Timeout or a guard"
        found.append(LintFinding(path=path, rule="never-ends", advice=advice))
    return found


def _restarts(path: str, node: Sequence) -> list[LintFinding]:
    slow = [child for child in node.children if _takes_several_ticks(child)]
    if len(slow) < 2:
        return []
    advice = (
        f"without memory every tick begins at {node.children[0].name!r}, so {slow[0].name!r} starts again "
        f"each time {slow[1].name!r} is RUNNING, and interrupts it; use memory=True"
    )
    return [LintFinding(path=path, rule="restarts-for-ever", advice=advice)]


def _takes_several_ticks(node: Behaviour) -> bool:
    if isinstance(node, (RunningIsFailure, RunningIsSuccess)):
        return False  # to its parent it is never RUNNING
    if isinstance(node, AsyncBehaviour):
        return node.work_dies_with_process
    if isinstance(node, TickCounter):
        return node.duration > 0
    if isinstance(node, (Timer, Running, Dummy)):
        return True
    return any(_takes_several_ticks(child) for child in node.children)


def _never_ends(node: Behaviour) -> bool:
    if isinstance(node, (Running, Dummy)):
        return True
    if isinstance(node, Repeat):
        return node.num_success < 0 and isinstance(node.decorated, Timer)
    return isinstance(node, SuccessIsRunning) and isinstance(node.decorated, Timer)


def _can_be_interrupted(node: Behaviour) -> bool:
    child, parent = node, node.parent
    while parent is not None:
        if isinstance(parent, (Timeout, RunningIsFailure, RunningIsSuccess)):
            return True
        if isinstance(parent, Parallel) and (len(parent.children) > 1 or _one_is_enough(parent)):
            return True
        if isinstance(parent, (Selector, Sequence)) and not parent.memory and child is not parent.children[0]:
            return True
        child, parent = parent, parent.parent
    return False


def _one_is_enough(parallel: Parallel) -> bool:
    return not isinstance(parallel.policy, ParallelPolicy.SuccessOnAll)

"""Finds nodes whose hidden state a checkpoint can not keep, before anything runs."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

from py_trees.behaviours import ProbabilisticBehaviour

from jianmu.runtime.restore.codecs import codec_for
from jianmu.runtime.restore.paths import node_paths
from jianmu.runtime.restore.report import RestoreProblem
from jianmu.runtime.restore.snapshot import blackboard_keys

if TYPE_CHECKING:
    from py_trees.behaviour import Behaviour

_RANDOM_KEY = re.compile(r"[0-9a-f]{8}([-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12}")
_OWN = frozenset({"iterator"})  # every py_trees node has one and makes it anew


def verify_restorable(tree: Behaviour) -> list[RestoreProblem]:
    """Name the nodes that a restored run could treat differently from an uninterrupted one.

    Nothing is ticked. A node that defines ``dump_node_state`` and ``load_node_state`` answers for itself.

    Args:
        tree: the root of the tree.

    Returns:
        One entry per node and reason; empty when every node can be restored exactly.
    """
    problems: list[RestoreProblem] = []
    for path, node in node_paths(tree).items():
        if not hasattr(node, "dump_node_state"):
            problems.extend(RestoreProblem(path=path, reason=reason) for reason in _reasons(node))
    return problems


def _reasons(node: Behaviour) -> list[str]:
    reasons: list[str] = []
    if isinstance(node, ProbabilisticBehaviour):
        reasons.append("draws its status at random; a restored run draws anew")
    drawn = sorted(key for key in blackboard_keys(node) if _RANDOM_KEY.search(key))
    if drawn:
        reasons.append(f"uses the blackboard key {drawn[0]!r}, which is drawn at random; give a namespace of your own")
    codec = codec_for(node)
    skipped = _OWN if codec is None else _OWN | codec.skips
    for name, value in vars(node).items():
        hidden = None if name in skipped else _hidden(value)
        if hidden:
            reasons.append(f"attribute {name!r} holds {hidden}; define dump_node_state() and load_node_state()")
    return reasons


def _hidden(value: Any) -> str | None:
    """Say what is hidden in a value, if anything is."""
    if isinstance(value, io.IOBase):
        return "an open file"
    if isinstance(value, threading.Thread):
        return "a thread"
    if isinstance(value, Random):
        return "a random generator"
    if isinstance(value, Iterator):
        return "an iterator, whose position is lost"
    return None

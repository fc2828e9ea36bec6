"""Puts a snapshot back into a fresh tree.

The order matters: statuses, composite pointers, private attributes and clocks, and only then the leaves whose work died
with the process. A leaf that is made INVALID before the pointers are repaired takes the pointer to it along.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from py_trees.blackboard import Blackboard
from py_trees.common import Status
from py_trees.composites import Composite, Parallel

from jianmu.errors import CheckpointVersionError, TreeChangedError
from jianmu.runtime.restore.codecs import unpack
from jianmu.runtime.restore.paths import kind_of
from jianmu.runtime.restore.policy import RestorePolicy
from jianmu.runtime.restore.report import RestoreReport
from jianmu.runtime.restore.snapshot import FORMAT, NOT_SET

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from py_trees.behaviour import Behaviour

    from jianmu.runtime.restore.snapshot import NodeRecord, TreeRecorder


class TreeRestorer:
    """Restores one snapshot: `restore_statuses`, then `repair_pointers`, then `finish`.

    Args:
        recorder: knows the tree as it was when it was fresh.
        policy: what to do when the tree is not the one that was saved.
        exact: what `TreeSnapshot.exact` held; None when only the statuses were stored.

    Raises:
        CheckpointVersionError: the snapshot was taken by a newer Jianmu.
    """

    def __init__(self, recorder: TreeRecorder, policy: RestorePolicy, exact: Mapping[str, Any] | None) -> None:
        found = FORMAT if exact is None else exact.get("format")
        if not isinstance(found, int) or found > FORMAT:
            raise CheckpointVersionError(f"its tree was saved in format {found}, this Jianmu reads up to {FORMAT}")
        self._recorder = recorder
        self._policy = policy
        self._exact: Mapping[str, Any] = exact or {}
        self._saved: dict[str, str] = {}
        self._matching: set[str] = set()
        self._new: list[str] = []
        self._dropped: list[str] = []
        self._restarted: list[str] = []
        self._invalidated: list[str] = []
        self._warnings: list[str] = []
        self._afresh = policy is RestorePolicy.STATE_ONLY

    def restore_statuses(self, statuses: Mapping[str, str] | None) -> None:
        """Give each node the status it had; nodes that do not match stay INVALID.

        Raises:
            TreeChangedError: the policy is STRICT and the tree is another one.
        """
        self._refresh()
        if statuses is None or self._afresh:
            self._afresh = True
            return
        self._saved = dict(statuses)
        self._match()
        if self._policy is RestorePolicy.STRICT:
            self._refuse_changes()
        for path in self._matching:
            self._recorder.paths[path].status = Status[self._saved[path]]

    def repair_pointers(self) -> None:
        """Let each composite point at the child it was at: the one that was RUNNING, else the stored one."""
        if self._afresh:
            return
        pointers: Mapping[str, str | None] = self._exact.get("pointers", {})
        for path in self._matching:
            node = self._recorder.paths[path]
            if isinstance(node, Composite):
                node.current_child = self._child_at(node, pointers.get(path))

    def finish(self) -> RestoreReport:
        """Put back private attributes and clocks, check the result, and let dead leaves start again."""
        if not self._afresh:
            self._restore_blackboard()
            for record in self._recorder.records:
                if record.path in self._matching:
                    self._restore_progress(record)
            self._check(self._recorder.root, parent_runs=True)
            self._restart_dead_leaves()
            self._note_losses()
        return RestoreReport(
            restored=tuple(path for path in self._recorder.paths if path in self._matching),
            new=tuple(self._new),
            dropped=tuple(self._dropped),
            restarted=tuple(self._restarted),
            invalidated=tuple(self._invalidated),
            warnings=tuple(self._warnings),
            exact=not (self._new or self._dropped or self._invalidated or self._warnings or self._afresh),
        )

    # -- steps --------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Bring a tree that was run before in this process back to how it was when it was fresh."""
        for record in self._recorder.records:
            record.node.status = Status.INVALID
            if isinstance(record.node, Composite):
                record.node.current_child = None
            for name, value in record.fresh.items():
                vars(record.node)[name] = value if value is None else _own_copy(value)

    def _match(self) -> None:
        kinds = self._saved_kinds()
        for path, node in self._recorder.paths.items():
            if path in self._saved and kinds.get(path, kind_of(node)) == kind_of(node):
                self._matching.add(path)
            else:
                self._new.append(path)
        self._dropped = [path for path in self._saved if path not in self._recorder.paths]

    def _saved_kinds(self) -> dict[str, str]:
        stored = self._exact.get("kinds")
        if not stored or len(stored[1]) != len(self._saved):
            return {}
        names, indexes = stored
        return {path: names[index] for path, index in zip(sorted(self._saved), indexes, strict=True)}

    def _refuse_changes(self) -> None:
        same_shape = self._exact.get("digest", self._recorder.digest) == self._recorder.digest
        if same_shape and not self._new and not self._dropped:
            return
        lines = [f"+ {path}" for path in self._new] + [f"- {path}" for path in self._dropped]
        raise TreeChangedError(lines or ["~ the same nodes with other settings (memory, policy or limits)"])

    def _child_at(self, node: Composite, stored: str | None) -> Behaviour | None:
        children = {self._recorder.path_of[id(child)]: child for child in node.children}
        if not isinstance(node, Parallel):
            running = [path for path in children if self._saved.get(path) == Status.RUNNING.name]
            if len(running) == 1:
                return children[running[0]]
        if stored is None and isinstance(node, Parallel) and node.status == Status.RUNNING and node.children:
            return node.children[-1]
        return children.get(stored or "")

    def _restore_progress(self, record: NodeRecord) -> None:
        data: Mapping[str, Any] = self._exact.get("nodes", {}).get(record.path, {})
        node: Any = record.node
        for name, packed in data.get("attributes", {}).items():
            vars(node)[name] = unpack(packed)
        if "hook" in data and record.has_hooks:
            node.load_node_state(unpack(data["hook"]))
        if "codec" in data and record.codec is not None:
            record.codec.load(node, data["codec"])

    def _restore_blackboard(self) -> None:
        board: Mapping[str, Any] = self._exact.get("blackboard", {})
        for key in self._recorder.keys:
            if key not in board:
                continue  # the saved tree did not know it, or could not keep it
            if board[key] == NOT_SET:
                Blackboard.storage.pop(key, None)
            else:
                Blackboard.storage[key] = unpack(board[key])

    def _check(self, node: Behaviour, *, parent_runs: bool) -> None:
        """Stop what can not go on: no RUNNING node under one that is not, no composite without its child."""
        if node.status == Status.RUNNING and not (parent_runs and self._can_go_on(node)):
            self._invalidate(node)
            return
        for child in node.children:
            self._check(child, parent_runs=node.status == Status.RUNNING)

    def _can_go_on(self, node: Behaviour) -> bool:
        if not isinstance(node, Composite) or isinstance(node, Parallel) or not node.children:
            return True
        running = [child for child in node.children if child.status == Status.RUNNING]
        return node.current_child in node.children and len(running) <= 1

    def _invalidate(self, node: Behaviour) -> None:
        """Make a subtree start again, without calling ``terminate``: its work never ran in this process."""
        self._invalidated.extend(self._recorder.path_of[id(each)] for each in _subtree(node))
        for each in _subtree(node):
            each.status = Status.INVALID
            if isinstance(each, Composite):
                each.current_child = None

    def _restart_dead_leaves(self) -> None:
        for record in self._recorder.records:
            node: Any = record.node
            if node.status != Status.RUNNING or not getattr(node, "work_dies_with_process", False):
                continue
            if hasattr(node, "on_resume"):
                data = self._exact.get("nodes", {}).get(record.path, {})
                saved = data.get("hook") if "hook" in data else data.get("attributes", {})
                node.on_resume(unpack(saved) if "hook" in data else {k: unpack(v) for k, v in saved.items()})
            else:
                node.status = Status.INVALID
                self._restarted.append(record.path)

    def _note_losses(self) -> None:
        for name in self._exact.get("unkept", ()):
            self._warnings.append(f"{name} was no data and could not be kept")
        if not self._exact:
            unknown = [r.path for r in self._recorder.records if r.path in self._matching and _has_progress(r)]
            if unknown:
                self._warnings.append(f"only statuses were stored; counters and clocks are unknown of: {unknown}")


def _own_copy(value: Any) -> Any:
    """Copy containers, so that the fresh one stays fresh; everything else is shared as it was."""
    return copy.copy(value) if isinstance(value, (list, dict, set)) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _subtree(node: Behaviour) -> Iterator[Behaviour]:
    yield node
    for child in node.children:
        yield from _subtree(child)


def _has_progress(record: NodeRecord) -> bool:
    """Whether a node has anything beyond its status that a run may have changed."""
    counters = [name for name, value in record.fresh.items() if type(value) in (int, float, list, dict)]
    return record.has_hooks or record.codec is not None or bool(counters)

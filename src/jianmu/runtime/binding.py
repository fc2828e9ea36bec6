"""Ties a tree to the one runner that runs it, and unties it again."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from py_trees.behaviour import Behaviour
from py_trees.common import Status

from jianmu.behaviours import AsyncBehaviour
from jianmu.errors import InvalidTreeError, LeafError, TreeInUseError
from jianmu.runtime.restore import node_paths

if TYPE_CHECKING:
    from collections.abc import Generator

    from jianmu.behaviours.host import LeafHost

_in_use: WeakSet[Behaviour] = WeakSet()


class TreeBinding:
    """A tree while it runs. Its shape must not change until it is untied.

    Args:
        root: the tree's root.

    Raises:
        InvalidTreeError: the root is no behaviour, or its nodes can not be told apart.

    Attributes:
        nodes: all nodes, parents before children.
    """

    def __init__(self, root: Behaviour) -> None:
        if not isinstance(root, Behaviour):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTreeError(f"the root must be a py_trees behaviour, not {root!r}")
        self.root = root
        self._by_path = node_paths(root)
        self.nodes = list(self._by_path.values())
        self._paths = {id(node): path for path, node in self._by_path.items()}
        self._guarded: list[Behaviour] = []

    def path_of(self, node: Behaviour) -> str:
        """Return a node's path."""
        return self._paths[id(node)]

    @contextmanager
    def claimed(self) -> Generator[None]:
        """Take the tree for one run.

        Raises:
            TreeInUseError: another runner has it.
        """
        for path, node in self._by_path.items():
            if node in _in_use:
                raise TreeInUseError(f"node {path!r} is being run by another runner; build a tree for each runner")
        _in_use.update(self.nodes)
        try:
            yield
        finally:
            _in_use.difference_update(self.nodes)

    def tie(self, host: LeafHost) -> None:
        """Let the leaves reach the run they are part of."""
        for node in self.nodes:
            if isinstance(node, AsyncBehaviour):
                node.bind(host)
            elif not node.children:
                self._guard(node, host)

    def untie(self) -> None:
        """Stop unfinished nodes, without telling the run that is over."""
        for node in self._guarded:
            del vars(node)["update"]
        self._guarded.clear()
        for node in self.nodes:
            if isinstance(node, AsyncBehaviour):
                node.bind(None)
        if self.root.status == Status.RUNNING:
            self.root.stop(Status.INVALID)

    def statuses(self) -> tuple[Status, ...]:
        """Return every node's status, in the order of `nodes`."""
        return tuple(node.status for node in self.nodes)

    def _guard(self, node: Behaviour, host: LeafHost) -> None:
        """Make a leaf that raises, or returns no Status, name itself."""
        update = node.update

        def guarded() -> Any:
            try:
                status: Any = update()
            except Exception as error:
                return host.failed(node, error)
            if not isinstance(status, Status):
                raise LeafError(host.path_of(node), f"update() returned {status!r}; return a py_trees Status")
            return status

        vars(node)["update"] = guarded
        self._guarded.append(node)

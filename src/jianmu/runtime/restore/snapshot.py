"""Takes a snapshot of a tree between two ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from py_trees.behaviour import Behaviour
from py_trees.blackboard import Blackboard, Client
from py_trees.composites import Composite

from jianmu.errors import SerializationError
from jianmu.runtime.restore.codecs import codec_for, pack
from jianmu.runtime.restore.paths import kind_of, node_paths, structure_digest
from jianmu.serialization import is_immutable, same

if TYPE_CHECKING:
    from jianmu.runtime.restore.codecs import NodeCodec

FORMAT = 1

_STRUCTURE = frozenset(
    {
        # what py_trees sets and a fresh tree has anyway
        "id", "name", "node_id", "blackboards", "qualified_name", "status", "iterator", "parent", "children", "logger",
        "blackbox_level", "current_child", "decorated", "update",
    }
)  # fmt: skip
NOT_SET = {"$not_set": True}
"""Stands for a blackboard variable that a tree knows and nobody has set."""

_UNENCODED: Any = object()
_ABSENT: Any = object()


class TreeSnapshot(NamedTuple):
    """A tree at one moment.

    Attributes:
        statuses: path to Status name, of every node.
        exact: the rest that an exact restore needs, JSON-safe.
    """

    statuses: dict[str, str]
    exact: dict[str, Any]


class NodeRecord:
    """One node and what it looked like when it was fresh.

    Args:
        path: the node's path.
        node: the node.
    """

    def __init__(self, path: str, node: Behaviour) -> None:
        self.path = path
        self.node = node
        self.codec: NodeCodec | None = codec_for(node)
        self.has_hooks = hasattr(node, "dump_node_state") and hasattr(node, "load_node_state")
        self._skipped = _STRUCTURE | getattr(node, "transient_attributes", frozenset[str]())
        if self.codec is not None:
            self._skipped = self._skipped | self.codec.skips
        self.fresh: dict[str, Any] = {} if self.has_hooks else dict(self._attributes())
        self._fresh_data = {name: self._packed(name, value) for name, value in self.fresh.items()}
        self._constant = {name for name, value in self.fresh.items() if is_immutable(value)}

    def dump(self, unkept: list[str]) -> dict[str, Any]:
        """Return the node's progress, as far as it differs from a fresh node's.

        Args:
            unkept: receives the names of attributes that were replaced by something that is no data.
        """
        data: dict[str, Any] = {}
        if self.has_hooks:
            data["hook"] = pack(cast("Any", self.node).dump_node_state(), f"node {self.path!r}")
        else:
            attributes = self._changed(unkept)
            if attributes:
                data["attributes"] = attributes
        if self.codec is not None:
            progress = self.codec.dump(self.node)
            if progress is not None:
                data["codec"] = progress
        return data

    def _attributes(self) -> list[tuple[str, Any]]:
        return [(name, value) for name, value in vars(self.node).items() if name not in self._skipped]

    def _changed(self, unkept: list[str]) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        for name, value in vars(self.node).items():
            if name in self._skipped:
                continue
            fresh = self.fresh.get(name, _ABSENT)
            if value is fresh and (name in self._constant or self._fresh_data[name] is _UNENCODED):
                continue
            packed = self._packed(name, value)
            if packed is _UNENCODED:
                if not isinstance(value, Behaviour):
                    unkept.append(f"{self.path}.{name}")
            elif fresh is _ABSENT or not same(packed, self._fresh_data[name]):
                changed[name] = packed
        return changed

    def _packed(self, name: str, value: Any) -> Any:
        try:
            return pack(value, name)
        except SerializationError:
            return _UNENCODED


class TreeRecorder:
    """Knows a tree when it was fresh, and takes snapshots of it.

    Args:
        root: the tree, set up and not ticked yet. Its shape must not change.

    Raises:
        InvalidTreeError: two nodes have the same ``node_id``, or a node stands in the tree twice.
    """

    def __init__(self, root: Behaviour) -> None:
        self.root = root
        self.paths = node_paths(root)
        self.digest = structure_digest(self.paths)
        self.path_of = {id(node): path for path, node in self.paths.items()}
        self.records = [NodeRecord(path, node) for path, node in self.paths.items()]
        self.keys = sorted({key for node in self.paths.values() for key in blackboard_keys(node)})
        self._composites = [(path, node) for path, node in self.paths.items() if isinstance(node, Composite)]
        self._kinds = self.kinds()

    def snapshot(self) -> TreeSnapshot:
        """Take a snapshot; only between two ticks, and never after a tick that raised."""
        statuses = {path: node.status.name for path, node in self.paths.items()}
        unkept: list[str] = []
        nodes = {record.path: data for record in self.records if (data := record.dump(unkept))}
        exact: dict[str, Any] = {"format": FORMAT, "digest": self.digest, "kinds": self._kinds}
        exact["pointers"] = {
            path: self.path_of.get(id(node.current_child))
            for path, node in self._composites
            if node.current_child is not None
        }
        exact["nodes"] = nodes
        if self.keys:
            exact["blackboard"] = self._blackboard(unkept)
        if unkept:
            exact["unkept"] = unkept
        return TreeSnapshot(statuses, exact)

    def kinds(self) -> list[list[Any]]:
        """Return every node's class, compactly: the class names, and for each path in sorted order an index."""
        names = sorted({kind_of(node) for node in self.paths.values()})
        index = {name: place for place, name in enumerate(names)}
        return [list(names), [index[kind_of(self.paths[path])] for path in sorted(self.paths)]]

    def _blackboard(self, unkept: list[str]) -> dict[str, Any]:
        board: dict[str, Any] = {}
        for key in self.keys:
            try:
                stored = key in Blackboard.storage
                board[key] = pack(Blackboard.storage[key], f"blackboard {key}") if stored else NOT_SET
            except SerializationError:
                unkept.append(f"blackboard {key}")
        return board


def blackboard_keys(node: Behaviour) -> set[str]:
    """Return the absolute blackboard keys that a node's clients have registered."""
    clients = [*node.blackboards, *(value for value in vars(node).values() if isinstance(value, Client))]
    return {key for client in clients for key in (*client.read, *client.write, *client.exclusive)}  # pyright: ignore[reportUnknownVariableType]

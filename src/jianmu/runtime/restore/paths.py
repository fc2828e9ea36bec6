"""Names for nodes that are the same in every process.

A node's path is the escaped names from the root, joined by ``/``; the second of two siblings of one name is ``name#2``.
A node with an explicit ``node_id`` begins a path of its own, ``@id``, which survives renaming and moving. py_trees' own
``id`` is drawn at random and means nothing to another process.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from py_trees.common import ParallelPolicy

from jianmu.errors import InvalidTreeError

if TYPE_CHECKING:
    from py_trees.behaviour import Behaviour

_ESCAPED = frozenset("/#%")
_SETTINGS = (
    "memory", "num_success", "num_failures", "duration", "period", "every_n", "completion_status", "max_rounds",
    "source_key", "target_key", "eventually", "queue",
)  # fmt: skip


def escape(name: str) -> str:
    """Percent-encode what would be misread in a path: ``/``, ``#``, ``%``, a leading ``@`` and control characters."""
    return "".join(
        _percent(char) if char in _ESCAPED or not char.isprintable() or (char == "@" and not place) else char
        for place, char in enumerate(name)
    )


def node_paths(root: Behaviour) -> dict[str, Behaviour]:
    """Return all nodes by their path, parents before children.

    Raises:
        InvalidTreeError: two nodes have the same ``node_id``, or a node stands in the tree twice.
    """
    found: dict[str, Behaviour] = {}
    _collect(root, _own_path(root) or escape(root.name), found, set())
    return found


def structure_digest(paths: dict[str, Behaviour]) -> str:
    """Return a hash over every node's path, class and settings such as memory, policy and limits."""
    lines = [f"{path}\0{kind_of(node)}\0{_settings(node)}" for path, node in paths.items()]
    return sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def kind_of(node: Behaviour) -> str:
    """Return the name of a node's class."""
    return f"{type(node).__module__}.{type(node).__qualname__}"


def _collect(node: Behaviour, path: str, found: dict[str, Behaviour], seen: set[int]) -> None:
    if path in found:
        raise InvalidTreeError(f"two nodes have the node_id of {path!r}: {found[path].name!r} and {node.name!r}")
    if id(node) in seen:
        raise InvalidTreeError(f"node {path!r} stands in the tree twice; make a node of its own for each place")
    seen.add(id(node))
    found[path] = node
    count: Counter[str] = Counter()
    for child in node.children:
        name = escape(child.name)
        count[name] += 1
        place = name if count[name] == 1 else f"{name}#{count[name]}"
        _collect(child, _own_path(child) or f"{path}/{place}", found, seen)


def _own_path(node: Behaviour) -> str | None:
    node_id = getattr(node, "node_id", None)
    return None if node_id is None else f"@{escape(str(node_id))}"


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _settings(node: Behaviour) -> str:
    settings = {name: _setting(getattr(node, name)) for name in _SETTINGS if hasattr(node, name)}
    policy: Any = getattr(node, "policy", None)
    if isinstance(policy, ParallelPolicy.Base):
        chosen = [child.name for child in getattr(policy, "children", ())]
        settings["policy"] = f"{type(policy).__name__} {policy.synchronise} {chosen}"
    elif policy is not None:
        settings["policy"] = _setting(policy)
    return repr(sorted(settings.items()))


def _setting(value: Any) -> str:
    if isinstance(value, Enum):
        return value.name
    return repr([_setting(item) for item in value]) if isinstance(value, list) else repr(value)  # pyright: ignore[reportUnknownVariableType]

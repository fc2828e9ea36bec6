"""Where a node keeps progress beyond its status, and how it travels.

For most nodes nothing needs to be said: attributes that differ from those of the fresh node and that JSON can hold are
kept. A codec speaks for a class that needs more; ``dump_node_state`` and ``load_node_state`` speak for a single class
of the user's.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Sized
from typing import TYPE_CHECKING, Any, Protocol, cast

from py_trees.common import Status
from py_trees.decorators import Decorator, Timeout

from jianmu.errors import SerializationError
from jianmu.serialization import decode, encode

if TYPE_CHECKING:
    from py_trees.behaviour import Behaviour

_STATUS = "$status"
_STATUSES = "$statuses"


class NodeCodec(Protocol):
    """Keeps the progress of one class of nodes."""

    skips: frozenset[str]
    """Attributes that the generic capture must leave to this codec."""

    def dump(self, node: Any) -> Any:
        """Return the progress as JSON-safe data, or None when there is none."""
        ...

    def load(self, node: Any, data: Any) -> None:
        """Put the progress into a fresh node."""
        ...


def pack(value: Any, path: str) -> Any:
    """Encode an attribute's value; also a Status, and a list of them.

    Raises:
        SerializationError: the value is no data.
    """
    if isinstance(value, Status):
        return {_STATUS: value.name}
    if type(value) is list and value and all(isinstance(item, Status) for item in cast("list[Any]", value)):
        return {_STATUSES: [item.name for item in cast("list[Status]", value)]}
    return encode(value, path)


def unpack(data: Any) -> Any:
    """Decode what `pack` wrote."""
    if isinstance(data, dict):
        if _STATUS in data:
            return Status[cast("dict[str, str]", data)[_STATUS]]
        if _STATUSES in data:
            return [Status[name] for name in cast("dict[str, list[str]]", data)[_STATUSES]]
    return decode(data)


class _TimeoutCodec:
    """Keeps the seconds that are left: the monotonic clock of another process means nothing here."""

    skips = frozenset({"finish_time"})

    def dump(self, node: Timeout) -> Any:
        return node.finish_time - time.monotonic() if node.status == Status.RUNNING else None

    def load(self, node: Timeout, data: Any) -> None:
        node.finish_time = time.monotonic() + data


class _ForEachCodec:
    """Keeps the position in the collection; what it is iterated over comes back through the blackboard."""

    skips = frozenset({"_iterator", "_current_item"})

    def dump(self, node: Any) -> Any:
        if node._iterator is None:
            return None
        items: Any = node.blackboard.get(node.source_key)
        if not isinstance(items, Sized):
            raise SerializationError(
                f"node {node.name!r}", "iterates over something without a length; put a list on the blackboard"
            )
        position = len(items) - operator.length_hint(node._iterator)
        return {"position": position, "item": pack(node._current_item, f"node {node.name!r}.current_item")}

    def load(self, node: Any, data: Any) -> None:
        iterator = iter(node.blackboard.get(node.source_key))
        for _ in range(data["position"]):
            next(iterator, None)
        node._iterator = iterator
        node._current_item = unpack(data["item"])


_codecs: dict[type, NodeCodec] = {Timeout: _TimeoutCodec()}


def register_codec(kind: type[Behaviour], codec: NodeCodec) -> None:
    """Let a codec keep the progress of a class of nodes and its subclasses.

    Args:
        kind: the class; the codec of the nearest base wins.
        codec: keeps the progress.
    """
    _codecs[kind] = codec


def codec_for(node: Behaviour) -> NodeCodec | None:
    """Return the codec that speaks for a node."""
    return next((_codecs[kind] for kind in type(node).__mro__ if kind in _codecs), None)


def _register_newer_classes() -> None:
    import py_trees.decorators as decorators

    for_each: type[Decorator] | None = getattr(decorators, "ForEach", None)  # py_trees 2.5 and newer
    if for_each is not None:
        register_codec(for_each, _ForEachCodec())


_register_newer_classes()

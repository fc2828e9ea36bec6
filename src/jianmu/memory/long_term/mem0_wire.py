"""What Jianmu's records look like on their way into Mem0, and Mem0's answers on their way back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from jianmu.errors import SerializationError
from jianmu.memory.long_term.items import place_of
from jianmu.namespaces import encode
from jianmu.serialization import decode as decode_value
from jianmu.serialization import encode as encode_value
from jianmu.text import replace_surrogates

if TYPE_CHECKING:
    from jianmu.memory.long_term.protocol import MemoryItem
    from jianmu.namespaces import Namespace

# Percent-encoding never leaves a bare "~", so no other namespace has this user id.
ROOT_USER = "~"

_OURS = "jianmu_"
_BLOB = "jianmu_metadata"
_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

# Names that Mem0 gives a meaning of its own, or silently drops.
_TAKEN = frozenset(
    (
        "actor_id",
        "agent_id",
        "app_id",
        "attributed_to",
        "categories",
        "created_at",
        "data",
        "expiration_date",
        "hash",
        "id",
        "key",
        "memory",
        "role",
        "run_id",
        "score",
        "text_lemmatized",
        "updated_at",
        "user_id",
    )
)


def user_id_of(namespace: Namespace | None) -> str:
    """Return the Mem0 user id of a namespace; no two namespaces share one, and none is a wildcard.

    Example:
        >>> user_id_of(("agent", "thread")), user_id_of(("*",)), user_id_of(None)
        ('agent/thread', '%2A', '~')
    """
    return encode(place_of(namespace)) or ROOT_USER


def to_wire(metadata: Mapping[str, Any], key: str | None) -> dict[str, Any]:
    """Write metadata so that any vector store takes it and `from_wire` gives it back equal.

    Short plain values stay as they are and can be used in Mem0's own filters. The rest, such as lists, nested dicts,
    None, datetimes and names that Mem0 uses itself, goes as JSON into one text field.

    Raises:
        SerializationError: a value cannot be stored; names its path.
    """
    wire = {name: value for name, value in metadata.items() if _is_plain(name, value)}
    rest = {name: value for name, value in metadata.items() if name not in wire}
    if rest:
        wire[_BLOB] = json.dumps(encode_value(rest, "metadata"), ensure_ascii=False)
    if key is not None:
        wire["key"] = replace_surrogates(key)
    return wire


def from_wire(wire: Any) -> dict[str, Any]:
    """Read back what `to_wire` wrote; other metadata is passed on as it is."""
    if not isinstance(wire, Mapping):
        return {}
    given = cast("Mapping[str, Any]", wire)
    metadata = {name: value for name, value in given.items() if not name.startswith(_OURS)}
    try:
        return metadata | decode_value(json.loads(given.get(_BLOB, "{}")))
    except (SerializationError, TypeError, ValueError):  # not ours after all
        return dict(given)


def _is_plain(name: Any, value: Any) -> bool:
    if not isinstance(name, str) or name in _TAKEN or name.startswith(_OURS) or not _PLAIN_KEY.fullmatch(name):
        return False
    match value:
        case bool():
            return True
        case str():
            return value == replace_surrogates(value)
        case int() | float():
            return math.isfinite(value) and abs(value) < 2**53
        case _:
            return False


def extract_results(raw: Any) -> list[dict[str, Any]]:
    """Return the list of results in an answer of any Mem0: the local one, the hosted one, old or new."""
    listed = cast("Any", raw).get("results") if isinstance(raw, Mapping) else raw
    return [item for item in cast("list[Any]", listed) if isinstance(item, dict)] if isinstance(listed, list) else []


def normalize_item(item: Mapping[str, Any]) -> MemoryItem:
    """Turn one result of Mem0 into a memory item."""
    data = item.get("data")
    nested = cast("Mapping[str, Any]", data).get("memory") if isinstance(data, Mapping) else None
    memory_id, score = item.get("id"), item.get("score")
    return {
        "id": None if memory_id is None else str(memory_id),
        "content": str(item.get("memory") or item.get("content") or nested or ""),
        "metadata": from_wire(item.get("metadata")),
        "score": None if score is None else float(score),
    }


def stored_items(raw: Any) -> list[MemoryItem]:
    """Return the memories that an answer to ``add`` says were stored or changed."""
    return [
        normalize_item(item)
        for item in extract_results(raw)
        if item.get("id") is not None and item.get("event") not in ("DELETE", "NONE", "NOOP")
    ]


def event_id_of(raw: Any) -> str | None:
    """Return the id of the event that stands for a write in progress, or None."""
    candidates = [raw, *extract_results(raw)]
    found = (cast("Any", one).get("event_id") for one in candidates if isinstance(one, Mapping))
    return next((str(event_id) for event_id in found if event_id), None)

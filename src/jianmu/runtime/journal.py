"""The effect journal: what was done to the outside world, so that it is not done twice.

It lives in the runtime metadata of each checkpoint, as data::

    {"root/pay": {"round": 0, "effects": {"charge:5f1c…": {"status": "started"}}}}

A round is one activation of a leaf, from its start to its completion or interruption. Entries are dropped when their
round ends, in the same checkpoint that shows the leaf done.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson

from jianmu.errors import EffectInDoubtError, SerializationError
from jianmu.serialization import decode, encode

if TYPE_CHECKING:
    from collections.abc import MutableMapping

STARTED, DONE = "started", "done"


def fingerprint(value: Any, path: str) -> str:
    """Return a short hash of data.

    Raises:
        SerializationError: the value is no data.
    """
    return sha256(orjson.dumps(encode(value, path), option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


class EffectJournal:
    """Reads and writes journal entries; saving them is the caller's.

    Args:
        thread_id: the run's thread; part of every idempotency key.
        leaves: the stored journal, node path to its round and entries; changed in place.
    """

    def __init__(self, thread_id: str, leaves: MutableMapping[str, Any]) -> None:
        self._thread_id = thread_id
        self._leaves = leaves

    def round(self, path: str) -> int:
        """Return the number of the leaf's current round, and remember that the leaf has rounds."""
        return self._leaf(path)["round"]

    def idempotency_key(self, path: str, key: str) -> str:
        """Return a key that is the same on every try of this effect, and of no other."""
        return sha256("\0".join((self._thread_id, path, str(self.round(path)), key)).encode(
            "utf-8", "surrogatepass"
        )).hexdigest()[:32]  # fmt: skip

    def entry_id(self, path: str, key: str, arguments: Any) -> str:
        """Return the id of an effect's entry.

        Raises:
            EffectInDoubtError: the same key was started with other arguments and its outcome is unknown.
        """
        entry_id = f"{key}:{fingerprint(arguments, f'the arguments of effect {key!r}')}"
        for other, entry in self._leaf(path)["effects"].items():
            if other != entry_id and other.rpartition(":")[0] == key and entry["status"] == STARTED:
                raise EffectInDoubtError(
                    key, f"node {path!r} started it with other arguments before a crash; settle that one first"
                )
        return entry_id

    def status(self, path: str, entry_id: str) -> str | None:
        """Return ``"started"``, ``"done"``, or None for an effect that was not begun in this round."""
        entry = self._leaf(path)["effects"].get(entry_id)
        return None if entry is None else entry["status"]

    def start(self, path: str, entry_id: str) -> None:
        """Note that an effect is about to happen."""
        self._leaf(path)["effects"][entry_id] = {"status": STARTED}

    def finish(self, path: str, entry_id: str, result: Any) -> None:
        """Note that an effect happened, with its result.

        Raises:
            SerializationError: the result is no data. The effect stays noted as done, so it is not repeated.
        """
        entry: dict[str, Any] = {"status": DONE}
        self._leaf(path)["effects"][entry_id] = entry
        entry["result"] = encode(result, f"the result of effect {entry_id.rpartition(':')[0]!r}")

    def forget(self, path: str, entry_id: str) -> None:
        """Drop an effect that is known not to have happened."""
        self._leaf(path)["effects"].pop(entry_id, None)

    def result(self, path: str, entry_id: str) -> Any:
        """Return the saved result of a finished effect."""
        entry = self._leaf(path)["effects"][entry_id]
        if "result" not in entry:
            raise SerializationError(f"the result of effect {entry_id!r}", "was no data and could not be kept")
        return decode(entry["result"])

    def end_round(self, path: str) -> None:
        """Begin a leaf's next round."""
        if path in self._leaves:
            self._leaves[path] = {"round": self._leaves[path]["round"] + 1, "effects": {}}

    def dump(self) -> dict[str, Any]:
        """Return a copy that later changes do not reach."""
        return {path: {**leaf, "effects": dict(leaf["effects"])} for path, leaf in self._leaves.items()}

    def _leaf(self, path: str) -> dict[str, Any]:
        return self._leaves.setdefault(path, {"round": 0, "effects": {}})

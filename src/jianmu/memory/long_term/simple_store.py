"""SimpleStore: long-term memory in one JSON file, found by keywords."""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import threading
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

from filelock import FileLock

from jianmu.errors import LongTermMemoryError, StoreCorruptError
from jianmu.memory.long_term.items import check_limit, format_items, place_of, record_result, text_of
from jianmu.serialization import decode, encode
from jianmu.text import fold, keywords, tokenize

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from jianmu.memory.long_term.protocol import (
        LongTermMemoryInput,
        LongTermMemoryRecordResult,
        LongTermMemoryRetrieved,
        MemoryItem,
    )
    from jianmu.namespaces import Namespace

Node: TypeAlias = dict[str, Any]

# Neither keys nor labels are ever empty, so this slot is free for records whose own slot is a sub-namespace.
_ASIDE = ""


class SimpleStore:
    """Long-term memory in one JSON file; needs no package, no service and no key.

    A namespace is a path of nested keys: a record of ``("session", "prefs")`` with key ``"tea"`` is
    ``data["session"]["prefs"]["tea"]``, an object with ``content`` and ``metadata``. A record whose key is also the
    name of a sub-namespace stands aside in ``data["session"][""]``, so neither hides the other.

    Every write replaces the whole file at once, on disk before it returns, under a lock that other threads and
    processes respect; what they wrote is read again first. Fit for thousands of records, not for millions.

    Args:
        db_path: the file; it and its folder are created by the first write. Beside it stands a ``.lock`` file.

    Raises:
        StoreCorruptError: on first use, when the file is not such a store. It is left as it is.

    Example:
        >>> store = SimpleStore(db_path="memory.json")  # doctest: +SKIP
        >>> store.record("用户喜欢喝绿茶", namespace=("session",), key="drink")["id"]  # doctest: +SKIP
        'drink'
        >>> store.retrieve("绿茶", namespace=("session",))[0]["content"]  # doctest: +SKIP
        '用户喜欢喝绿茶'
    """

    def __init__(self, db_path: str | os.PathLike[str] = ".outputs/jianmu/store.json") -> None:
        self.db_path = Path(db_path)
        # The real file, so that all who reach it by links share one lock and a link stays a link.
        self._file = Path(os.path.realpath(db_path))
        self._process_lock = FileLock(self._file.with_name(self._file.name + ".lock"))
        self._thread_lock = threading.Lock()
        self._data: Node = {}
        self._seen: tuple[int, ...] | None = None

    def record(
        self,
        inputs: LongTermMemoryInput,
        *,
        namespace: Namespace | None = None,
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> LongTermMemoryRecordResult:
        """Store a text under a key; the same key again replaces it.

        Args:
            inputs: text, a message or a conversation; messages become one text.
            namespace: where it belongs; None is the root.
            key: its name in the namespace, not empty; also its id.
            metadata: plain Python data to keep beside it.
            kwargs: ignored.

        Raises:
            ValueError: no key, or no text.
            SerializationError: a part of ``metadata`` cannot be stored; names its path.
            StoreCorruptError: the file is damaged; it is left as it is.
            LongTermMemoryError: the file cannot be written; it is as it was.
        """
        if not key:
            raise ValueError("SimpleStore.record needs a non-empty key: it is the record's id")
        path = place_of(namespace)
        content = text_of(inputs)
        stored = {"content": content, "metadata": encode(dict(metadata or {}), "metadata")}
        self._change(lambda data: _put(_node(data, path, create=True), key, stored))
        return record_result([_item(key, stored, None)], key=key)

    def retrieve(
        self, query: str, *, limit: int = 5, namespace: Namespace | None = None, **kwargs: Any
    ) -> LongTermMemoryRetrieved:
        """Find records of a namespace by keywords.

        Records that contain the query as it stands, letter case aside, come first and alone. If there are none, those
        that share words with it: lower-cased, stemmed, Chinese and the like by pairs of characters.

        Args:
            query: what to look for; an empty one finds nothing.
            limit: at most this many, 1 or more.
            namespace: where to look; None is the root. What lies below it is not searched.
            kwargs: ignored.

        Returns:
            The best first, with the share of the query's words that were found as score; of equals the newest first.
        """
        check_limit(limit)
        records = self._records(place_of(namespace))
        scores = _containing(query, records) or _overlapping(query, records)
        best = heapq.nlargest(limit, reversed(scores), key=scores.__getitem__)
        return [_item(key, records[key], scores[key]) for key in best]

    def format_retrieved(self, retrieved: LongTermMemoryRetrieved, **kwargs: Any) -> str:
        """Write records as numbered lines with id, score and metadata."""
        return format_items(retrieved)

    def get(self, memory_id: str, *, namespace: Namespace | None = None) -> MemoryItem | None:
        """Return one record of a namespace by its key, or None."""
        stored = self._records(place_of(namespace)).get(memory_id)
        return None if stored is None else _item(memory_id, stored, None)

    def delete(self, memory_id: str, *, namespace: Namespace | None = None) -> bool:
        """Forget one record of a namespace.

        Returns:
            True if there was one.
        """
        path = place_of(namespace)
        return self._change(lambda data: _drop(_node(data, path), memory_id))

    def _records(self, path: Namespace) -> dict[str, Node]:
        with self._thread_lock:
            signature = _signature(self._file)
            if signature != self._seen:
                self._data = _load(self._file)
                self._seen = signature
            return _records_of(_node(self._data, path))

    def _change(self, edit: Callable[[Node], bool]) -> bool:
        """Apply an edit to what the file holds now; write it if the edit says that it changed anything."""
        with self._thread_lock, self._writing():
            data = _load(self._file)
            changed = edit(data)
            if changed:
                _replace(self._file, data)
            self._data, self._seen = data, _signature(self._file)
            return changed

    @contextlib.contextmanager
    def _writing(self) -> Generator[None]:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._process_lock:
                yield
        except OSError as error:
            raise LongTermMemoryError(f"cannot write {self._file}: {error}; the store is as it was") from error


# ------------------------------------------------------------------ the file


def _signature(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _load(path: Path) -> Node:
    try:
        stored = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise LongTermMemoryError(f"cannot read {path}: {error}") from error
    if not stored:
        return {}
    try:
        data = json.loads(stored)
        _check(path, data, "the top level")
    except (ValueError, RecursionError) as error:
        raise _corrupt(path, f"it is not JSON ({error})") from error
    return data


def _check(path: Path, node: Any, where: str) -> None:
    if not isinstance(node, dict):
        raise _corrupt(path, f"{where} is not an object")
    inside = cast("Node", node)
    if not _is_record(inside):
        for key, child in inside.items():
            _check(path, child, repr(key))
    elif not isinstance(inside.get("metadata", {}), dict):
        raise _corrupt(path, f"the metadata of {where} is not an object")


def _corrupt(path: Path, reason: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"{path} is not a readable store: {reason}. It is left as it is; repair it or move it away"
    )


def _replace(path: Path, data: Node) -> None:
    """Put new content in the place of a file at once, so that a crash leaves either the old or the new one."""
    # One name for all writers: they take turns, and what a killed one left behind is overwritten.
    draft = path.with_name(f".{path.name}.draft")
    try:
        with open(draft, "wb", opener=_private) as file:
            file.write(_json(data))
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            draft.chmod(path.stat().st_mode & 0o777)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":  # elsewhere a folder cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _json(data: Node) -> bytes:
    try:
        return json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(data).encode()


# ------------------------------------------------------------------ the tree of namespaces


def _is_record(value: Any) -> TypeGuard[Node]:
    """Tell a record from a sub-namespace: in a namespace every value is an object, so no ``content`` is a text."""
    return isinstance(value, dict) and isinstance(value.get("content"), str)  # pyright: ignore[reportUnknownMemberType]


def _node(data: Node, path: Namespace, *, create: bool = False) -> Node:
    node = data
    for label in path:
        child = node.get(label)
        if create and _is_record(child):
            node.setdefault(_ASIDE, {})[label] = node.pop(label)
        if child is None or _is_record(child):
            if not create:
                return {}
            child = node[label] = {}
        node = child
    return node


def _records_of(node: Node) -> dict[str, Node]:
    return {key: value for key, value in node.items() if _is_record(value)} | node.get(_ASIDE, {})


def _put(node: Node, key: str, record: Node) -> bool:
    _drop(node, key)  # a record that is replaced becomes the newest
    holder = node.setdefault(_ASIDE, {}) if key in node else node
    holder[key] = record
    return True


def _drop(node: Node, key: str) -> bool:
    for holder in (node, node.get(_ASIDE, {})):
        if _is_record(holder.get(key)):
            del holder[key]
            return True
    return False


# ------------------------------------------------------------------ finding


def _containing(query: str, records: dict[str, Node]) -> dict[str, float]:
    wanted = fold(query).strip()
    return {key: 1.0 for key, record in records.items() if wanted and wanted in fold(record["content"])}


def _overlapping(query: str, records: dict[str, Node]) -> dict[str, float]:
    wanted = set(keywords(query))
    shares = {key: len(wanted & _terms(record["content"])) for key, record in records.items()}
    return {key: found / len(wanted) for key, found in shares.items() if found}


@lru_cache(maxsize=100_000)
def _terms(text: str) -> frozenset[str]:
    return frozenset(tokenize(text))


def _item(key: str, record: Node, score: float | None) -> MemoryItem:
    metadata = decode(record.get("metadata", {}))
    return {"id": key, "content": record["content"], "metadata": metadata, "score": score}

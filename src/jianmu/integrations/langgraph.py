"""LangGraph's checkpoints on Jianmu's engines.

`JianmuSaver` is a LangGraph checkpointer over `SqliteCheckpointer` or `PostgresCheckpointer` (or any other checkpointer
that keeps history). What a graph's channels hold is stored by what changed, so a growing chat costs its length, not the
square of it; and threads can be pruned, copied, and freed of single runs.

How it is stored: a LangGraph thread and namespace is one Jianmu thread; each of its checkpoints is one save whose step
is derived from the checkpoint's id, so that an id is found without a search. Pending writes of a checkpoint are a
Jianmu thread of their own, one save per call. A checkpoint that is deleted is replaced by an empty mark until its
thread is pruned or deleted.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import unquote

from jianmu._extras import extra
from jianmu.errors import ConfigurationError
from jianmu.memory.checkpoint import CheckpointerProtocol, Envelope
from jianmu.memory.checkpoint.capabilities import CheckpointInfo, DeleteCapable, HistoryCapable, PruneCapable
from jianmu.namespaces import encode_label

with extra("langgraph"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        get_checkpoint_id,
        get_checkpoint_metadata,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol

_ROOT = "langgraph"
_LIST, _VALUE = "items", "value"


class _Store(CheckpointerProtocol, HistoryCapable, DeleteCapable, PruneCapable, Protocol):
    """What a checkpointer under a `JianmuSaver` must be able to do."""


class _Place(NamedTuple):
    """A LangGraph thread and namespace."""

    thread_id: str
    namespace: str

    @classmethod
    def of(cls, config: RunnableConfig) -> _Place:
        configurable = config.get("configurable", {})
        if "thread_id" not in configurable:
            raise ConfigurationError('the config names no thread: pass {"configurable": {"thread_id": ...}}')
        return cls(str(configurable["thread_id"]), configurable.get("checkpoint_ns") or "")

    @property
    def chain(self) -> str:
        """The Jianmu thread of its checkpoints."""
        return f"{_prefix(self.thread_id)}{encode_label(self.namespace)}"

    def writes(self, checkpoint_id: str) -> str:
        """The Jianmu thread of a checkpoint's pending writes."""
        labels = (self.thread_id, self.namespace, checkpoint_id)
        return ":".join((f"{_ROOT}-writes", *map(encode_label, labels)))


class JianmuSaver(BaseCheckpointSaver[Any]):
    """A LangGraph checkpointer over one of Jianmu's.

    Args:
        checkpointer: where it is stored, such as ``SqliteCheckpointer(path)``; it must keep history.
        serde: how values become bytes; LangGraph's own serializer by default.

    Raises:
        ConfigurationError: the checkpointer can not list, delete and prune.

    Example:
        >>> from jianmu.memory import SqliteCheckpointer                      # doctest: +SKIP
        >>> saver = JianmuSaver(SqliteCheckpointer("graphs.db"))              # doctest: +SKIP
        >>> graph = builder.compile(checkpointer=saver)                       # doctest: +SKIP
    """

    def __init__(self, checkpointer: CheckpointerProtocol, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        for ability in (HistoryCapable, DeleteCapable, PruneCapable):
            if not isinstance(checkpointer, ability):
                raise ConfigurationError(f"{type(checkpointer).__name__} keeps no history; use one of the engines")
        self._store = cast("_Store", checkpointer)

    # -- the five methods every saver has -------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; what its channels share with the one before is stored once."""
        place, checkpoint_id = _Place.of(config), checkpoint["id"]
        values = {f"channel:{name}": self._dump(value) for name, value in checkpoint["channel_values"].items()}
        rest = {key: value for key, value in checkpoint.items() if key != "channel_values"}
        about = {
            "checkpoint_id": checkpoint_id,
            "parent_id": get_checkpoint_id(config),
            "rest": self._dump_typed(rest),
            "metadata": self._dump_typed(get_checkpoint_metadata(config, metadata)),
        }
        self._store.save_checkpoint(place.chain, _step(checkpoint_id), values, None, {_ROOT: about})
        return _config(place, checkpoint_id)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task has written on top of a checkpoint; storing it again changes nothing."""
        place, checkpoint_id = _Place.of(config), get_checkpoint_id(config) or ""
        numbered = [
            [WRITES_IDX_MAP.get(channel, index), channel, self._dump_typed(value)]
            for index, (channel, value) in enumerate(writes)
        ]
        call = f"{task_id} {[number for number, _, _ in numbered]}"
        state = {"task_id": task_id, "task_path": task_path, "writes": numbered}
        self._store.save_checkpoint(place.writes(checkpoint_id), _step(call), state)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Load a checkpoint by its id, or the newest one of the thread."""
        place, checkpoint_id = _Place.of(config), get_checkpoint_id(config)
        if checkpoint_id is not None:
            envelope = self._store.get_checkpoint_at(place.chain, _step(checkpoint_id))
            return None if envelope is None or _is_mark(envelope) else self._tuple(place, envelope)
        return next(self._newest_first(place), None)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the name is LangGraph's
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """List checkpoints, the newest first; only as many are loaded as are asked for.

        Args:
            config: its thread, namespace and checkpoint id, as far as it names them; None for everything.
            filter: metadata keys and the values they must have.
            before: only checkpoints older than this one's.
            limit: at most this many.
        """
        bound = None if before is None else get_checkpoint_id(before)
        wanted = None if config is None else get_checkpoint_id(config)
        count = 0
        for place in self._places(config):
            for found in self._newest_first(place):
                if limit is not None and count >= limit:
                    return
                checkpoint_id = found.checkpoint["id"]
                if (
                    (bound is None or checkpoint_id < bound)
                    and wanted in (None, checkpoint_id)
                    and _fits(found, filter)
                ):
                    count += 1
                    yield found

    def delete_thread(self, thread_id: str) -> None:
        """Delete every checkpoint of a thread, in all its namespaces, with its writes."""
        for place in self._places_of(thread_id):
            for about in self._about(place):
                self._store.delete_thread(place.writes(about["checkpoint_id"]))
            self._store.delete_thread(place.chain)

    # -- and three that few have ----------------------------------------------------------------------------------

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints, and their writes, that certain runs have made, in all threads."""
        doomed = set(run_ids)
        for place in self._places(None) if doomed else ():
            for found in self._newest_first(place):
                if found.metadata.get("run_id") in doomed:
                    self._forget(place, found.checkpoint["id"])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread, in all its namespaces, into another one."""
        for place in self._places_of(source_thread_id):
            target = _Place(target_thread_id, place.namespace)
            for about in reversed(list(self._about(place))):
                checkpoint_id = about["checkpoint_id"]
                self._copy(place.chain, _step(checkpoint_id), target.chain)
                for info in reversed(self._store.list_checkpoints(place.writes(checkpoint_id))):
                    self._copy(place.writes(checkpoint_id), info.step, target.writes(checkpoint_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Drop old checkpoints.

        Args:
            thread_ids: the threads.
            strategy: ``"keep_latest"`` keeps the newest checkpoint of each namespace, ``"delete"`` nothing.

        Raises:
            ConfigurationError: the strategy is another one.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ConfigurationError(f"unknown strategy {strategy!r}; there are 'keep_latest' and 'delete'")
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
            else:
                for place in self._places_of(thread_id):
                    self._keep_latest(place)

    # -- asynchronous twins ---------------------------------------------------------------------------------------

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Do what `put` does, off the event loop."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Do what `put_writes` does, off the event loop."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Do what `get_tuple` does, off the event loop."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the name is LangGraph's
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do what `list` does, off the event loop, one checkpoint at a time."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (item := await asyncio.to_thread(next, found, None)) is not None:
            yield item

    async def adelete_thread(self, thread_id: str) -> None:
        """Do what `delete_thread` does, off the event loop."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Do what `delete_for_runs` does, off the event loop."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Do what `copy_thread` does, off the event loop."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Do what `prune` does, off the event loop."""
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    def get_next_version(self, current: Any, channel: None) -> str:
        """Return the channel version after ``current``; text that sorts as it grows."""
        number = 0 if current is None else int(str(current).split(".")[0])
        return f"{number + 1:032}"

    # -- inside ---------------------------------------------------------------------------------------------------

    def _places(self, config: RunnableConfig | None) -> Sequence[_Place]:
        configurable = {} if config is None else config.get("configurable", {})
        if "thread_id" not in configurable:
            return self._places_below(f"{_ROOT}:")
        if config is not None and "checkpoint_ns" in configurable:
            return [_Place.of(config)]
        return self._places_of(str(configurable["thread_id"]))

    def _places_of(self, thread_id: str) -> Sequence[_Place]:
        return self._places_below(_prefix(thread_id))

    def _places_below(self, prefix: str) -> Sequence[_Place]:
        return [_place(name) for name in self._store.list_threads() if name.startswith(prefix)]

    def _newest_first(self, place: _Place) -> Iterator[CheckpointTuple]:
        newest = self._store.get_checkpoint(place.chain)
        if newest is None:
            return
        if not _is_mark(newest):
            yield self._tuple(place, newest)
        for info in self._infos(place)[1:]:
            envelope = self._store.get_checkpoint_at(place.chain, info.step)
            if envelope is not None and not _is_mark(envelope):
                yield self._tuple(place, envelope)

    def _infos(self, place: _Place) -> Sequence[CheckpointInfo]:
        return self._store.list_checkpoints(place.chain)

    def _about(self, place: _Place) -> Iterator[dict[str, Any]]:
        """Return what is known of each checkpoint of a chain, the newest first."""
        for info in self._infos(place):
            envelope = self._store.get_checkpoint_at(place.chain, info.step)
            if envelope is not None and not _is_mark(envelope):
                yield envelope["runtime_metadata"][_ROOT]

    def _tuple(self, place: _Place, envelope: Envelope) -> CheckpointTuple:
        about = envelope["runtime_metadata"][_ROOT]
        checkpoint_id, parent_id = about["checkpoint_id"], about["parent_id"]
        state: dict[str, Any] = envelope["state"]
        values = {key.removeprefix("channel:"): self._load(value) for key, value in state.items()}
        return CheckpointTuple(
            config=_config(place, checkpoint_id),
            checkpoint=cast("Checkpoint", {**self._load_typed(about["rest"]), "channel_values": values}),
            metadata=self._load_typed(about["metadata"]),
            parent_config=None if parent_id is None else _config(place, parent_id),
            pending_writes=self._pending_writes(place, checkpoint_id),
        )

    def _pending_writes(self, place: _Place, checkpoint_id: str) -> list[tuple[str, str, Any]]:
        thread = place.writes(checkpoint_id)
        found: dict[tuple[str, str, int], tuple[str, Any]] = {}
        for info in reversed(self._store.list_checkpoints(thread)):
            envelope = self._store.get_checkpoint_at(thread, info.step)
            state: dict[str, Any] = {"writes": []} if envelope is None else envelope["state"]
            for number, channel, packed in state["writes"]:
                key = (state["task_path"], state["task_id"], number)
                if number < 0 or key not in found:  # a plain write counts once, a special one is replaced
                    found[key] = (channel, self._load_typed(packed))
        return [(task_id, channel, value) for (_, task_id, _), (channel, value) in sorted(found.items(), key=_order)]

    def _forget(self, place: _Place, checkpoint_id: str) -> None:
        self._store.save_checkpoint(place.chain, _step(checkpoint_id), {}, None, {_ROOT: {"deleted": True}})
        self._store.delete_thread(place.writes(checkpoint_id))

    def _copy(self, source: str, step: int, target: str) -> None:
        envelope = self._store.get_checkpoint_at(source, step)
        if envelope is not None:
            self._store.save_checkpoint(target, step, envelope["state"], None, envelope["runtime_metadata"])

    def _keep_latest(self, place: _Place) -> None:
        known = list(self._about(place))
        if not known:
            self._store.delete_thread(place.chain)
            return
        latest, *older = known
        if self._infos(place)[0].step != _step(latest["checkpoint_id"]):
            self._copy(place.chain, _step(latest["checkpoint_id"]), place.chain)  # behind the marks that came after it
        self._store.prune(place.chain, keep_last=1)
        for about in older:
            self._store.delete_thread(place.writes(about["checkpoint_id"]))

    def _dump(self, value: Any) -> dict[str, Any]:
        """Write a channel's value; a list item by item, so that one that grew is stored by its new items."""
        if type(value) is list:
            return {_LIST: [self._dump_typed(item) for item in cast("Sequence[Any]", value)]}
        return {_VALUE: self._dump_typed(value)}

    def _load(self, stored: dict[str, Any]) -> Any:
        if _LIST in stored:
            return [self._load_typed(item) for item in stored[_LIST]]
        return self._load_typed(stored[_VALUE])

    def _dump_typed(self, value: Any) -> str:
        kind, data = self.serde.dumps_typed(value)
        return f"{kind}:{base64.b64encode(data).decode()}"

    def _load_typed(self, stored: str) -> Any:
        kind, _, data = stored.partition(":")
        return self.serde.loads_typed((kind, base64.b64decode(data)))


def _prefix(thread_id: str) -> str:
    return f"{_ROOT}:{encode_label(thread_id)}:"


def _place(chain: str) -> _Place:
    _, thread_id, namespace = chain.split(":")
    return _Place(unquote(thread_id, errors="surrogatepass"), unquote(namespace, errors="surrogatepass"))


def _step(name: str) -> int:
    """Return a step that belongs to a name: 62 bits of its hash, so that it is found without an index."""
    return int.from_bytes(sha256(name.encode("utf-8", "surrogatepass")).digest()[:8]) >> 2


def _config(place: _Place, checkpoint_id: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": place.thread_id,
            "checkpoint_ns": place.namespace,
            "checkpoint_id": checkpoint_id,
        }
    }


def _is_mark(envelope: Envelope) -> bool:
    return bool(envelope["runtime_metadata"].get(_ROOT, {}).get("deleted"))


def _fits(found: CheckpointTuple, wanted: dict[str, Any] | None) -> bool:
    metadata = cast("Mapping[str, Any]", found.metadata)
    return all(key in metadata and metadata[key] == value for key, value in (wanted or {}).items())


def _order(entry: tuple[tuple[str, str, int], Any]) -> tuple[str, str, int]:
    return entry[0]

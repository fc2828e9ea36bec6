"""Mem0LongTermMemory: long-term memory kept by Mem0, on this machine or by its hosted platform."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self

from jianmu.memory.long_term.items import check_limit, format_items, record_result, text_of
from jianmu.memory.long_term.mem0_clients import open_hosted, open_local, require_model, wait_for_event
from jianmu.memory.long_term.mem0_wire import (
    event_id_of,
    extract_results,
    from_wire,
    normalize_item,
    stored_items,
    to_wire,
    user_id_of,
)
from jianmu.text import replace_surrogates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jianmu.memory.long_term.protocol import (
        LongTermMemoryInput,
        LongTermMemoryRecordResult,
        LongTermMemoryRetrieved,
        MemoryItem,
    )
    from jianmu.namespaces import Namespace


class Mem0LongTermMemory:
    """Semantic memory by Mem0 (``mem0ai`` 1.x or 2.x).

    A namespace becomes a Mem0 user id, each label percent-encoded: ``("agent", "thread")`` is ``agent/thread``. So no
    two namespaces meet and no label acts as Mem0's wildcard ``*``. Mem0's telemetry is off unless ``MEM0_TELEMETRY``
    is set when this is constructed.

    Args:
        config: configuration of the local library; Mem0's own default needs an OpenAI key. `keyless_mem0_config` makes
            one that needs none.
        api_key: use the hosted platform with this key instead.
        infer: let a language model extract facts from what is recorded (True), or store the text as it is (False).
        host: address of the hosted platform; None for Mem0's own.
        wait: the hosted platform answers before it has stored anything; wait this many seconds for it in ``record``,
            so that the memory can be found afterwards. None does not wait and reports ``"pending"``.
        client: a ready ``mem0.Memory`` or ``mem0.MemoryClient`` to use instead of making one.

    Attributes:
        client: the Mem0 object in use.
        infer: as given.

    Raises:
        ConfigurationError: a local set-up needs an OpenAI key and there is none, or the platform refuses the key.
        MissingExtraError: the extra ``mem0`` is not installed.

    Example:
        >>> memory = Mem0LongTermMemory(config=keyless_mem0_config("memory"), infer=False)  # doctest: +SKIP
        >>> memory.record("用户喜欢喝绿茶", namespace=("agent",), key="drink")["status"]  # doctest: +SKIP
        'stored'
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        api_key: str | None = None,
        infer: bool = True,
        host: str | None = None,
        wait: float | None = None,
        client: Any = None,
    ) -> None:
        self.infer = infer
        self._wait = wait
        if client is not None:
            self.client = client
        elif api_key is not None:
            self.client = open_hosted(api_key, host)
        else:
            self.client = open_local(config, infer=infer)
        self._search_parameters = _parameters(self.client.search)
        # Before 2.0 the score of a Chroma hit is a distance.
        self._score_is_distance = "limit" in self._search_parameters and _vector_store(self.client) == "ChromaDB"

    def record(
        self,
        inputs: LongTermMemoryInput,
        *,
        namespace: Namespace | None = None,
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        infer: bool | None = None,
        **kwargs: Any,
    ) -> LongTermMemoryRecordResult:
        """Give a text to Mem0.

        Args:
            inputs: text, a message or a conversation; messages become one text.
            namespace: where it belongs; None is the root.
            key: a name kept in the metadata; Mem0 gives the id itself and never replaces by key.
            metadata: plain Python data to keep beside it.
            infer: overrides the ``infer`` of the constructor for this call.
            kwargs: options of Mem0's ``add``.

        Returns:
            What Mem0 stored: with ``infer`` any number of facts, else the text. ``"pending"`` with an ``event_id``
            when the hosted platform is still at work.

        Raises:
            ValueError: there is no text.
            ConfigurationError: ``infer`` without a language model.
            SerializationError: a part of ``metadata`` cannot be stored; names its path.
            LongTermMemoryError: the hosted platform reported, within ``wait``, that it failed.
        """
        text = replace_surrogates(text_of(inputs))
        wire = to_wire(metadata or {}, key)
        infer = self.infer if infer is None else infer
        if infer:
            require_model(self.client)
        options = _accepted(self.client.add, kwargs) | {"user_id": user_id_of(namespace)}
        raw = self.client.add(text, metadata=wire, infer=infer, **options)
        event_id = event_id_of(raw)
        event = None if event_id is None or self._wait is None else wait_for_event(self.client, event_id, self._wait)
        items = stored_items(raw) if event is None else _outcome(event, text)
        for item in items:
            item["metadata"] = item["metadata"] or from_wire(wire)
        return record_result(items, key=key, event_id=event_id if event is None else None)

    def retrieve(
        self, query: str, *, limit: int = 5, namespace: Namespace | None = None, **kwargs: Any
    ) -> LongTermMemoryRetrieved:
        """Find memories of a namespace by meaning.

        Args:
            query: what to look for; an empty one finds nothing.
            limit: at most this many, 1 or more.
            namespace: where to look; None is the root. What lies below it is not searched.
            kwargs: options of Mem0's ``search``, such as ``threshold``; weak hits are not hidden unless you say so.

        Returns:
            The best first.
        """
        check_limit(limit)
        wanted = replace_surrogates(query).strip()
        if not wanted:
            return []
        user_id = user_id_of(namespace)
        options = self._search_options(user_id, limit, _accepted(self.client.search, kwargs))
        found = self._extract_results(self.client.search(wanted, **options))
        ours = [self._normalize_item(item) for item in found if item.get("user_id", user_id) == user_id]
        return self._ranked(ours)[:limit]

    def format_retrieved(self, retrieved: LongTermMemoryRetrieved, **kwargs: Any) -> str:
        """Write memories as numbered lines with id, score and metadata."""
        return format_items(retrieved)

    def get(self, memory_id: str, *, namespace: Namespace | None = None) -> MemoryItem | None:
        """Return one memory by id; None if the namespace has no such memory."""
        try:
            found = self.client.get(memory_id)
        except Exception as error:
            if _says_missing(error):
                return None
            raise
        # Mem0 looks up ids without asking whose they are.
        return self._normalize_item(found) if found and found.get("user_id") == user_id_of(namespace) else None

    def delete(self, memory_id: str, *, namespace: Namespace | None = None) -> bool:
        """Forget one memory of a namespace. A local Mem0 keeps its text in the history file.

        Returns:
            True if there was one.
        """
        if self.get(memory_id, namespace=namespace) is None:
            return False
        self.client.delete(memory_id)
        return True

    def close(self) -> None:
        """Release files and connections; the memory cannot be used afterwards."""
        # The hosted client holds an HTTP client, the library a database; old ones have no close() of their own.
        for holder in (getattr(self.client, "client", None), self.client, getattr(self.client, "db", None)):
            if callable(close := getattr(holder, "close", None)):
                close()
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @staticmethod
    def _extract_results(raw: Any) -> list[dict[str, Any]]:
        """Return the results of an answer: of a dict its ``results``, of a list the list itself."""
        return extract_results(raw)

    @staticmethod
    def _normalize_item(item: Mapping[str, Any]) -> MemoryItem:
        """Turn one result into ``{"id", "content", "metadata", "score"}``."""
        return normalize_item(item)

    def _search_options(self, user_id: str, limit: int, given: Mapping[str, Any]) -> dict[str, Any]:
        """Say the same in the dialect of the Mem0 at hand, as its signature shows it; the namespace comes last."""
        known = self._search_parameters
        options = {"threshold": 0.0, **given, "limit" if "limit" in known else "top_k": limit}
        options["filters"] = {**(given.get("filters") or {}), "user_id": user_id}
        return options | ({"user_id": user_id} if "user_id" in known else {})

    def _ranked(self, items: list[MemoryItem]) -> list[MemoryItem]:
        if self._score_is_distance:
            items = [{**item, "score": _closeness(item["score"])} for item in items]
        return sorted(items, key=lambda item: (item["score"] is not None, item["score"]), reverse=True)


def _outcome(event: Mapping[str, Any], text: str) -> list[MemoryItem]:
    """Return what a finished event stored. One that does not tell is taken to have stored the text."""
    if event.get("results") is None:
        return [{"id": None, "content": text, "metadata": {}, "score": None}]
    return stored_items(event)


def _closeness(distance: float | None) -> float | None:
    return None if distance is None else 1.0 / (1.0 + distance)


def _parameters(method: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(method).parameters
    except (TypeError, ValueError):
        return {}


def _accepted(method: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    known = _parameters(method)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        return dict(options)
    return {name: value for name, value in options.items() if name in known}


def _vector_store(client: Any) -> str:
    return type(getattr(client, "vector_store", None)).__name__


def _says_missing(error: Exception) -> bool:
    return isinstance(error, IndexError) or type(error).__name__ == "MemoryNotFoundError"

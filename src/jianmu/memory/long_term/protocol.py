"""The contract of every long-term memory: record, retrieve, format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict, runtime_checkable

from jianmu.messages import Message

if TYPE_CHECKING:
    from jianmu.namespaces import Namespace

LongTermMemoryInput: TypeAlias = str | Message | Sequence[Message]


class MemoryItem(TypedDict):
    """One memory, the same for every backend.

    Attributes:
        id: the backend's id; None when it gave none.
        content: the text.
        metadata: what was stored beside the text.
        score: how well it fits the query, higher is better; None when it was not looked up by a query.
    """

    id: str | None
    content: str
    metadata: dict[str, Any]
    score: float | None


class LongTermMemoryRecordResult(TypedDict):
    """What a call of ``record`` did.

    Attributes:
        id: the id of the first stored memory, else None.
        key: the caller's name for the record, if there was one.
        status: ``"stored"``; ``"nothing"`` when the backend found nothing worth keeping; ``"pending"`` when it accepted
            the text and works on it.
        results: the stored memories. A backend that extracts facts may store several, or none.
        event_id: what to ask a pending backend about, else None.
    """

    id: str | None
    key: str | None
    status: Literal["stored", "nothing", "pending"]
    results: list[MemoryItem]
    event_id: str | None


LongTermMemoryRetrieved: TypeAlias = list[MemoryItem]


@runtime_checkable
class LongTermMemoryProtocol(Protocol):
    """Knowledge that outlives a session.

    Duties of an implementer:

    - A memory of one namespace is never returned for another one, be it above, below, or of a similar name.
    - ``retrieve`` gives the best memories first, at most ``limit``, and none for an empty query.
    - What is returned belongs to the caller: changing it never changes the store.
    - Options a backend does not know are ignored, so that one backend can take the place of another.
    - All methods are synchronous and may be called from any thread.

    Nothing here says that a memory has a key, or that it can be deleted. A backend that can forget has
    ``delete(memory_id, *, namespace=None) -> bool``; callers look for it with ``getattr``.
    """

    def record(
        self, inputs: LongTermMemoryInput, *, namespace: Namespace | None = None, **kwargs: Any
    ) -> LongTermMemoryRecordResult:
        """Store what is worth keeping.

        Args:
            inputs: text, a message, or a conversation.
            namespace: where it belongs, such as ``("agent", "thread")``; None is the root.
            kwargs: ``key`` and ``metadata`` where a backend has them, and its own options.

        Raises:
            ValueError: there is nothing in ``inputs`` to store.
        """
        ...

    def retrieve(
        self, query: str, *, limit: int = 5, namespace: Namespace | None = None, **kwargs: Any
    ) -> LongTermMemoryRetrieved:
        """Find the memories of a namespace that fit a query.

        Args:
            query: what to look for, in the searcher's own words.
            limit: at most this many, 1 or more.
            namespace: where to look; what lies below it is not searched.
            kwargs: the backend's own options.
        """
        ...

    def format_retrieved(self, retrieved: LongTermMemoryRetrieved, **kwargs: Any) -> str:
        """Write retrieved memories as text for a model; empty when there are none."""
        ...

"""MemoryService: any long-term memory, bound to one namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jianmu.namespaces import Namespace, nest, validate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jianmu.memory.long_term.protocol import (
        LongTermMemoryInput,
        LongTermMemoryProtocol,
        LongTermMemoryRecordResult,
        LongTermMemoryRetrieved,
    )
    from jianmu.tools.base import Tool


class MemoryService:
    """A long-term memory seen from one namespace.

    Args:
        long_term_memory: the backend.
        namespace: where everything is stored and looked for; ``()`` is the root.

    Attributes:
        memory: the backend.
        namespace: the namespace, as a tuple.

    Raises:
        NamespaceError: the namespace is not a sequence of non-empty labels.

    Example:
        >>> from jianmu.memory import MemoryService, SimpleStore
        >>> service = MemoryService(SimpleStore(db_path="memory.json"), namespace=("session",))  # doctest: +SKIP
        >>> service.add("用户喜欢 Python", key="pref1", metadata={"type": "language"})  # doctest: +SKIP
        >>> results = service.search("Python", limit=3)  # doctest: +SKIP
    """

    def __init__(self, long_term_memory: LongTermMemoryProtocol, namespace: Sequence[str] = ()) -> None:
        self.memory = long_term_memory
        self.namespace: Namespace = validate(namespace)

    def add(
        self,
        text: LongTermMemoryInput,
        *,
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> LongTermMemoryRecordResult:
        """Record a text, a message or a conversation.

        Args:
            text: what to record.
            key: the caller's name for it; some backends need one.
            metadata: plain data to keep beside it.
            kwargs: options of the backend.
        """
        given = {"key": key, "metadata": metadata}
        kwargs.update({name: value for name, value in given.items() if value is not None})
        return self.memory.record(text, namespace=self.namespace, **kwargs)

    def search(self, query: str, *, limit: int = 5, **kwargs: Any) -> LongTermMemoryRetrieved:
        """Find at most ``limit`` memories that fit the query, the best first."""
        return self.memory.retrieve(query, limit=limit, namespace=self.namespace, **kwargs)

    def format_retrieved(self, retrieved: LongTermMemoryRetrieved, **kwargs: Any) -> str:
        """Write memories as text for a model."""
        return self.memory.format_retrieved(retrieved, **kwargs)

    def delete(self, memory_id: str) -> bool:
        """Forget one memory of this namespace.

        Returns:
            True if it is gone; False if there was none, or if the backend cannot forget.
        """
        delete = getattr(self.memory, "delete", None)
        return delete is not None and delete(memory_id, namespace=self.namespace) is not False

    def within(self, namespace: Sequence[str]) -> MemoryService:
        """Return a service for a namespace below this one; it can never reach above or beside."""
        return MemoryService(self.memory, nest(self.namespace, namespace))

    def as_tools(self) -> list[Tool]:
        """Make the tools by which a model uses this memory: ``memory_search``, then ``memory_add``."""
        from jianmu.memory.tools import MemoryAddTool, MemorySearchTool

        return [MemorySearchTool(memory=self), MemoryAddTool(memory=self)]

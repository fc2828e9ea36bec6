"""The tools by which a model uses long-term memory: ``memory_search`` and ``memory_add``."""

from __future__ import annotations

import logging
from collections.abc import Sized
from typing import TYPE_CHECKING, Any, Literal
from uuid import NAMESPACE_OID, uuid4, uuid5

from jianmu.errors import ConfigurationError
from jianmu.events import MemoryAdded, MemoryFailed, MemorySearched, emit
from jianmu.memory.long_term.service import MemoryService
from jianmu.tools.base import Tool, ToolContext

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jianmu.events import RuntimeEventBus
    from jianmu.memory.long_term.protocol import LongTermMemoryProtocol
    from jianmu.namespaces import Namespace
    from jianmu.tools.arguments import Schema

__all__ = ["NO_RESULTS", "MemoryAddTool", "MemorySearchTool", "create_memory_tools"]

_logger = logging.getLogger(__name__)

NO_RESULTS = "No results."

_NAMESPACE: Schema = {
    "type": "array",
    "items": {"type": "string", "minLength": 1},
    "description": "A compartment of your memory, as a path of names. Leave it out for the main one.",
}

_SEARCH_INPUT: Schema = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to look for, in a few words or as a question."},
        "k": {"type": "integer", "minimum": 1, "default": 5, "description": "How many results at most."},
        "namespace": _NAMESPACE,
    },
    "required": ["query"],
    "additionalProperties": False,
}

_ADD_INPUT: Schema = {
    "type": "object",
    "properties": {
        "content": {"type": "string", "minLength": 1, "description": "The fact to remember."},
        "metadata": {"type": "object", "description": 'Labels to keep with it, such as {"type": "preference"}.'},
        "key": {
            "type": "string",
            "minLength": 1,
            "description": "A name for the fact. Storing under the same name again may replace the old fact.",
        },
        "namespace": _NAMESPACE,
    },
    "required": ["content"],
    "additionalProperties": False,
}

_TEXT: Schema = {"type": "string"}


class _MemoryTool(Tool):
    def __init__(
        self,
        long_term_memory: LongTermMemoryProtocol | MemoryService | None = None,
        *,
        memory: LongTermMemoryProtocol | MemoryService | None = None,
        namespace: Sequence[str] = (),
        events: RuntimeEventBus | None = None,
    ) -> None:
        if (long_term_memory is None) is (memory is None):
            raise ConfigurationError(f"{type(self).__name__} takes exactly one of long_term_memory and memory")
        backend = memory if long_term_memory is None else long_term_memory
        assert backend is not None
        within = backend.within if isinstance(backend, MemoryService) else MemoryService(backend).within
        self.service = within(namespace)
        self._events = events

    def _compartment(self, namespace: Sequence[str] | None) -> MemoryService:
        return self.service.within(namespace) if namespace else self.service

    def _emit(self, payload: Any) -> None:
        (emit if self._events is None else self._events.emit)(payload)

    def _failed(self, operation: Literal["add", "search"], namespace: Namespace, error: Exception) -> None:
        _logger.warning("memory_%s failed in namespace %r", operation, namespace, exc_info=error)
        self._emit(MemoryFailed(operation=operation, namespace=namespace, error=str(error) or repr(error)))


class MemorySearchTool(_MemoryTool):
    """Lets a model look into long-term memory.

    Whatever goes wrong, the model reads ``No results.``; the cause goes to the log and to the event bus.

    Args:
        long_term_memory: the backend, or a `MemoryService` that binds one to a namespace.
        memory: the same under its other name; give exactly one of the two.
        namespace: the border: the model can look at this namespace and below it, never above or beside.
        events: where to report; None for the bus of the current run.

    Raises:
        ConfigurationError: none or both of ``long_term_memory`` and ``memory`` are given.
    """

    name = "memory_search"
    description = (
        "Search your long-term memory for what was stored in this or earlier conversations, such as facts and "
        "preferences of the user. Returns the best matches, or 'No results.'"
    )
    input_schema = _SEARCH_INPUT
    output_schema = _TEXT
    effect = "read"
    idempotent = True

    def run(self, query: str, k: int = 5, namespace: Sequence[str] | None = None) -> str:
        """Return the memories that fit, as numbered lines, or ``No results.``."""
        where = self.service.namespace
        try:
            compartment = self._compartment(namespace)
            where = compartment.namespace
            found = compartment.search(query, limit=k)
            text = compartment.format_retrieved(found) if found else ""
        except Exception as error:  # a memory that fails must not stop the conversation
            self._failed("search", where, error)
            return NO_RESULTS
        self._emit(MemorySearched(namespace=where, query=query, results=_count(found)))
        return text or NO_RESULTS


class MemoryAddTool(_MemoryTool):
    """Lets a model store something in long-term memory.

    Args:
        long_term_memory: the backend, or a `MemoryService` that binds one to a namespace.
        memory: the same under its other name; give exactly one of the two.
        namespace: the border: the model can store in this namespace and below it, never above or beside.
        events: where to report; None for the bus of the current run.

    Raises:
        ConfigurationError: none or both of ``long_term_memory`` and ``memory`` are given.
    """

    name = "memory_add"
    description = (
        "Store a fact in your long-term memory, so that you can find it in later conversations. Write one "
        "self-contained sentence that can be understood without this conversation."
    )
    input_schema = _ADD_INPUT
    output_schema = _TEXT
    effect = "write"

    def run(
        self,
        content: str,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
        namespace: Sequence[str] | None = None,
        context: ToolContext | None = None,
    ) -> str:
        """Store the content and say under which id and key, or what went wrong.

        Without a key one is made: a UUID, the same one when this very call is made again after a crash.
        """
        key = key or _made_key(context)
        where = self.service.namespace
        try:
            compartment = self._compartment(namespace)
            where = compartment.namespace
            result: Any = compartment.add(content, key=key, metadata=metadata)
        except Exception as error:  # the model can read the reason and try otherwise
            self._failed("add", where, error)
            return f"Error storing memory: {error}"
        memory_id = _stored_id(result)
        self._emit(MemoryAdded(namespace=where, memory_id=memory_id, key=key))
        return _told(result, memory_id, key)


def create_memory_tools(*, namespace: Sequence[str] = (), long_term_memory: LongTermMemoryProtocol) -> list[Tool]:
    """Make ``memory_search`` and ``memory_add`` for a namespace; the same as ``MemoryService(...).as_tools()``."""
    return MemoryService(long_term_memory, namespace=namespace).as_tools()


def _made_key(context: ToolContext | None) -> str:
    call = context.idempotency_key if context is not None else None
    return str(uuid5(NAMESPACE_OID, call) if call else uuid4())


def _count(found: Any) -> int:
    return len(found) if isinstance(found, Sized) else 0


def _stored_id(result: Any) -> str | None:
    """Find the id in what a backend returned; a backend of the user's own may return another shape."""
    match result:
        case str():
            return result
        case {"id": memory_id} if memory_id:
            return str(memory_id)
        case {"results": [first, *_]} | [first, *_]:
            return _stored_id(first)
        case _:
            return getattr(result, "id", None)


def _told(result: Any, memory_id: str | None, key: str) -> str:
    match result:
        case {"status": "nothing"}:
            return f"Nothing new to store (key: {key})"
        case {"status": "pending"}:
            return f"Accepted, can be found in a moment (key: {key})"
        case _:
            return f"Stored (id: {memory_id}, key: {key})"

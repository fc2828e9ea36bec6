"""The memory of an agent: three pillars and what builds on them.

::

    checkpoint/   where am I        a run's state, saved after each tick and resumed by another process
    long_term/    what do I know    knowledge that outlives a session, found again by meaning or words
    tools         memory_search, memory_add: the model reaches long-term memory itself
    context/      what the model sees: prompts within a token budget

The pillars do not know each other; the tools stand on long-term memory. The names below are loaded when they are first
used: importing this module brings no optional package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jianmu._lazy import lazy_face

if TYPE_CHECKING:
    from jianmu.memory.checkpoint import FileCheckpointer, InMemoryCheckpointer, NullCheckpointer
    from jianmu.memory.checkpoint.encrypted import EncryptedCheckpointer
    from jianmu.memory.checkpoint.envelope import extract_checkpoint_payload, make_checkpoint_envelope
    from jianmu.memory.checkpoint.postgres import PostgresCheckpointer
    from jianmu.memory.checkpoint.protocol import CheckpointerProtocol
    from jianmu.memory.checkpoint.redis import RedisCheckpointer
    from jianmu.memory.checkpoint.sqlite import SqliteCheckpointer
    from jianmu.memory.context import ContextBuilder
    from jianmu.memory.long_term import (
        LongTermMemoryInput,
        LongTermMemoryProtocol,
        LongTermMemoryRecordResult,
        LongTermMemoryRetrieved,
        Mem0LongTermMemory,
        MemoryItem,
        MemoryService,
        SimpleStore,
        keyless_mem0_config,
    )
    from jianmu.memory.tools import MemoryAddTool, MemorySearchTool, create_memory_tools

__all__ = [
    "CheckpointerProtocol",
    "ContextBuilder",
    "EncryptedCheckpointer",
    "FileCheckpointer",
    "InMemoryCheckpointer",
    "LongTermMemoryInput",
    "LongTermMemoryProtocol",
    "LongTermMemoryRecordResult",
    "LongTermMemoryRetrieved",
    "Mem0LongTermMemory",
    "MemoryAddTool",
    "MemoryItem",
    "MemorySearchTool",
    "MemoryService",
    "NullCheckpointer",
    "PostgresCheckpointer",
    "RedisCheckpointer",
    "SimpleStore",
    "SqliteCheckpointer",
    "create_memory_tools",
    "extract_checkpoint_payload",
    "keyless_mem0_config",
    "make_checkpoint_envelope",
]

_CHECKPOINT, _LONG_TERM, _TOOLS = "jianmu.memory.checkpoint", "jianmu.memory.long_term", "jianmu.memory.tools"
_HOMES = {
    "CheckpointerProtocol": f"{_CHECKPOINT}.protocol",
    "ContextBuilder": "jianmu.memory.context",
    "EncryptedCheckpointer": f"{_CHECKPOINT}.encrypted",
    "FileCheckpointer": _CHECKPOINT,
    "InMemoryCheckpointer": _CHECKPOINT,
    "LongTermMemoryInput": _LONG_TERM,
    "LongTermMemoryProtocol": _LONG_TERM,
    "LongTermMemoryRecordResult": _LONG_TERM,
    "LongTermMemoryRetrieved": _LONG_TERM,
    "Mem0LongTermMemory": _LONG_TERM,
    "MemoryAddTool": _TOOLS,
    "MemoryItem": _LONG_TERM,
    "MemorySearchTool": _TOOLS,
    "MemoryService": _LONG_TERM,
    "NullCheckpointer": _CHECKPOINT,
    "PostgresCheckpointer": f"{_CHECKPOINT}.postgres",
    "RedisCheckpointer": f"{_CHECKPOINT}.redis",
    "SimpleStore": _LONG_TERM,
    "SqliteCheckpointer": f"{_CHECKPOINT}.sqlite",
    "create_memory_tools": _TOOLS,
    "extract_checkpoint_payload": f"{_CHECKPOINT}.envelope",
    "keyless_mem0_config": _LONG_TERM,
    "make_checkpoint_envelope": f"{_CHECKPOINT}.envelope",
}

__getattr__, __dir__ = lazy_face(__name__, _HOMES)

"""What do I know: knowledge that outlives a session."""

from jianmu.memory.long_term.mem0 import Mem0LongTermMemory
from jianmu.memory.long_term.mem0_clients import keyless_mem0_config
from jianmu.memory.long_term.protocol import (
    LongTermMemoryInput,
    LongTermMemoryProtocol,
    LongTermMemoryRecordResult,
    LongTermMemoryRetrieved,
    MemoryItem,
)
from jianmu.memory.long_term.service import MemoryService
from jianmu.memory.long_term.simple_store import SimpleStore

__all__ = [
    "LongTermMemoryInput",
    "LongTermMemoryProtocol",
    "LongTermMemoryRecordResult",
    "LongTermMemoryRetrieved",
    "Mem0LongTermMemory",
    "MemoryItem",
    "MemoryService",
    "SimpleStore",
    "keyless_mem0_config",
]

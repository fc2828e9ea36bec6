"""Where am I: snapshots of a run.

Backends with a package or a server of their own are found in their modules, such as
`jianmu.memory.checkpoint.sqlite`.
"""

from jianmu.memory.checkpoint.capabilities import (
    AsyncCheckpointer,
    CheckpointInfo,
    DeleteCapable,
    ForkCapable,
    HistoryCapable,
    LockCapable,
    PruneCapable,
    ThreadLease,
)
from jianmu.memory.checkpoint.envelope import extract_checkpoint_payload, make_checkpoint_envelope
from jianmu.memory.checkpoint.factory import make_checkpointer
from jianmu.memory.checkpoint.file import FileCheckpointer
from jianmu.memory.checkpoint.in_memory import InMemoryCheckpointer
from jianmu.memory.checkpoint.null import NullCheckpointer
from jianmu.memory.checkpoint.protocol import CheckpointerProtocol, Envelope

__all__ = [
    "AsyncCheckpointer",
    "CheckpointInfo",
    "CheckpointerProtocol",
    "DeleteCapable",
    "Envelope",
    "FileCheckpointer",
    "ForkCapable",
    "HistoryCapable",
    "InMemoryCheckpointer",
    "LockCapable",
    "NullCheckpointer",
    "PruneCapable",
    "ThreadLease",
    "extract_checkpoint_payload",
    "make_checkpoint_envelope",
    "make_checkpointer",
]

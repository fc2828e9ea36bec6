"""What a run does with a checkpoint that is there."""

from __future__ import annotations

from enum import Enum


class RestorePolicy(Enum):
    """How a checkpoint is restored."""

    AUTO = "auto"
    """Restore the state, and every node of the tree that still fits; tell what did not."""
    STRICT = "strict"
    """Restore everything, or raise `TreeChangedError` when the tree is not the one that was saved."""
    STATE_ONLY = "state_only"
    """Restore the state; the tree starts afresh."""
    NEVER = "never"
    """Ignore the checkpoint."""

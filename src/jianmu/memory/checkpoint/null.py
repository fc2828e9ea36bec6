"""The checkpointer that keeps nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jianmu.memory.checkpoint.protocol import Envelope


class NullCheckpointer:
    """Has the interface of a checkpointer and no effect: for runs that nobody will resume."""

    local: ClassVar[bool] = True

    def save_checkpoint(
        self,
        thread_id: str,
        step: int,
        state_dump: Mapping[str, Any],
        tree_state: Mapping[str, str] | None = None,
        runtime_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Do nothing."""

    def get_checkpoint(self, thread_id: str) -> Envelope | None:
        """Return None: nothing is ever kept."""
        return None

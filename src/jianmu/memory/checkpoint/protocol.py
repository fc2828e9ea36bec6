"""The contract of every checkpoint backend: two methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

Envelope: TypeAlias = dict[str, Any]


@runtime_checkable
class CheckpointerProtocol(Protocol):
    """Saves snapshots of a thread and gives back the newest one.

    Duties of an implementer:

    - ``save_checkpoint`` returns only when the snapshot is stored as durably as the backend promises. It stores a copy:
      later changes of the arguments never reach what is stored.
    - A save that fails raises `jianmu.errors.CheckpointSaveError`, which names the thread and the step, and leaves the
      previous checkpoint readable.
    - ``get_checkpoint`` returns what was saved **last**, whatever its step is: a thread that was rewound goes on from
      an earlier step. It returns a fresh envelope that the caller may change, or None when the thread is unknown.
    - Envelopes are built by `make_checkpoint_envelope` and checked by `extract_checkpoint_payload`; one of another
      layout is refused with None, never with an exception. Fields the backend does not know are kept.
    - Thread ids are any non-empty text. Two different ids never share data.
    - Both methods may be called from any thread.

    What a backend can do beyond this it says by the one-method protocols in `jianmu.memory.checkpoint.capabilities`.
    """

    def save_checkpoint(
        self,
        thread_id: str,
        step: int,
        state_dump: Mapping[str, Any],
        tree_state: Mapping[str, str] | None = None,
        runtime_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Store one snapshot.

        Args:
            thread_id: the stable name of the run, the same across processes.
            step: the tick number; it grows along a run.
            state_dump: what ``StateManager.dump_checkpoint()`` returned, JSON-safe.
            tree_state: node path to Status name, such as ``{"root/ask": "RUNNING"}``; None when no tree is saved.
            runtime_metadata: what the runner needs beside state and tree; ``{}`` when omitted.

        Raises:
            CheckpointSaveError: nothing was stored; the previous checkpoint is intact.
        """
        ...

    def get_checkpoint(self, thread_id: str) -> Envelope | None:
        """Load the snapshot that was saved last.

        Args:
            thread_id: the stable name of the run.

        Returns:
            The envelope, or None when there is none or when it has another layout.
        """
        ...

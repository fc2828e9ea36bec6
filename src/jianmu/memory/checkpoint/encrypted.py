"""`EncryptedCheckpointer`: any checkpointer, with everything but the step encrypted."""

from __future__ import annotations

import base64
import os
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from uuid import uuid4

from jianmu._extras import extra
from jianmu.errors import (
    CheckpointNotFoundError,
    CheckpointSaveError,
    ConfigurationError,
    DecryptionError,
    SerializationError,
)
from jianmu.memory.checkpoint.capabilities import AsyncTwins
from jianmu.memory.checkpoint.delta import (
    Baseline,
    Baselines,
    KeyframeRule,
    Picture,
    Position,
    Row,
    read_chain,
)
from jianmu.memory.checkpoint.envelope import extract_checkpoint_payload, make_checkpoint_envelope
from jianmu.namespaces import encode_label
from jianmu.state import StateDump

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jianmu.memory.checkpoint.protocol import CheckpointerProtocol, Envelope

SealedPart: TypeAlias = dict[str, Any]

_FIELD = "$encrypted"
_KEY_BYTES = (16, 24, 32)
_NONCE_BYTES = 12
_PASSED_ON = ("list_threads", "list_checkpoints", "prune", "lock")
_OWN = ("get_checkpoint_at", "fork", "delete_thread")


class _Known(Baseline):
    """What a thread's newest checkpoint holds, as a baseline whose number is that of its dump, with its parts."""

    parts: tuple[SealedPart, ...] = ()


class EncryptedCheckpointer(AsyncTwins):
    """Encrypts state, tree and runtime metadata before another checkpointer stores them (AES-GCM).

    Each stored part is bound to its thread, its step and the part before it: one that was changed, or moved to another
    thread or step, is refused. What stays readable are thread ids, steps, times of saving, key names and sizes. That
    somebody put back a whole older checkpoint of the same thread can not be seen.

    The wrapper can do what the inner checkpointer can (history, fork, delete, prune, lock), and no more. Over one that
    stores only what changed, it encrypts only what changed. A key should write at most four billion checkpoints.

    Args:
        inner: where encrypted checkpoints go.
        keys: key name to key: 16, 24 or 32 random bytes. All of them can read.
        current: the name of the key that writes; the first one when omitted. To rotate, add a key, name it here, and
            drop the old one when no checkpoint needs it any more.

    Raises:
        MissingExtraError: the package cryptography is not installed.
        ConfigurationError: there is no key, one has another length, or ``current`` is not among them.

    Example:
        >>> import os
        >>> from jianmu.memory import InMemoryCheckpointer
        >>> checkpointer = EncryptedCheckpointer(InMemoryCheckpointer(), {"2026-05": os.urandom(32)})
        >>> checkpointer.save_checkpoint("session-42", 1, {"topic": "tea"})
        >>> checkpointer.get_checkpoint("session-42")["state"]
        {'topic': 'tea'}
    """

    def __init__(self, inner: CheckpointerProtocol, keys: Mapping[str, bytes], *, current: str | None = None) -> None:
        with extra("encryption"):
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        _check_keys(keys, current)
        self.inner = inner
        self.local: bool = getattr(inner, "local", False)
        self._ciphers = {name: AESGCM(key) for name, key in keys.items()}
        self._current = next(iter(keys)) if current is None else current
        self._invalid: type[Exception] = InvalidTag
        # An inner checkpointer that stores everything each time is best given one part each time.
        self._grows: bool = getattr(inner, "stores_changes", False)
        self._rule = KeyframeRule()
        self._known: Baselines[_Known] = Baselines()
        self._source = uuid4().hex
        self._dumps = count(1)
        self._claim_abilities()

    def save_checkpoint(
        self,
        thread_id: str,
        step: int,
        state_dump: Mapping[str, Any],
        tree_state: Mapping[str, str] | None = None,
        runtime_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Encrypt and store one snapshot.

        Raises:
            CheckpointSaveError: nothing was stored; the previous checkpoint is intact.
        """
        envelope = make_checkpoint_envelope(step, state_dump, tree_state, runtime_metadata)
        known = self._known.get(thread_id)
        try:
            picture = Picture(envelope, state_dump)
            row = Row.keyframe(envelope) if known is None else self._rule.next_row(known, envelope, picture)
        except SerializationError as error:
            raise CheckpointSaveError(str(error), thread_id=thread_id, step=step) from error
        now = _Known(Position(None, next(self._dumps)), row.chain, picture)
        before = () if known is None or row.whole else known.parts
        now.parts = (*before, self._seal(thread_id, step, row.body, before))
        self._store(thread_id, step, now, known)
        if self._grows:
            self._known.put(thread_id, now)

    def get_checkpoint(self, thread_id: str) -> Envelope | None:
        """Load and decrypt the snapshot that was saved last.

        Raises:
            DecryptionError: its key is missing, or it was changed or moved.
        """
        stored = self.inner.get_checkpoint(thread_id)
        if stored is None:
            return None
        bodies = self._open(thread_id, stored)
        parts: list[SealedPart] = stored["state"][_FIELD]
        if self._grows and parts[0]["key"] == self._current:
            known = _Known.stored(Position(None, 0), bodies)
            known.parts = tuple(parts)
            self._known.put(thread_id, known)
        return extract_checkpoint_payload(read_chain(bodies))

    def close(self) -> None:
        """Close the inner checkpointer, if it can be closed."""
        close = getattr(self.inner, "close", None)
        if close is not None:
            close()

    # -- abilities ----------------------------------------------------------------------------------------------

    def _claim_abilities(self) -> None:
        """Have the methods that the inner checkpointer has, so that ``isinstance`` tells the same of both."""
        for name in _PASSED_ON:
            if hasattr(self.inner, name):
                setattr(self, name, getattr(self.inner, name))
        for name in _OWN:
            if hasattr(self.inner, name):
                setattr(self, name, getattr(self, f"_{name}"))

    def _get_checkpoint_at(self, thread_id: str, step: int) -> Envelope | None:
        """Load and decrypt the checkpoint of one step, or None."""
        stored = cast("Any", self.inner).get_checkpoint_at(thread_id, step)
        return None if stored is None else extract_checkpoint_payload(read_chain(self._open(thread_id, stored)))

    def _fork(self, thread_id: str, step: int, new_thread_id: str) -> None:
        """Copy one checkpoint into a new thread, encrypted anew: a stored part belongs to its thread."""
        envelope = self._get_checkpoint_at(thread_id, step)
        if envelope is None:
            raise CheckpointNotFoundError("there is no such checkpoint to fork from", thread_id=thread_id, step=step)
        if self.inner.get_checkpoint(new_thread_id) is not None:
            raise CheckpointSaveError("it has checkpoints already; fork into a new thread", thread_id=new_thread_id)
        self.save_checkpoint(new_thread_id, step, envelope["state"], envelope["tree"], envelope["runtime_metadata"])

    def _delete_thread(self, thread_id: str) -> bool:
        """Delete every checkpoint of a thread."""
        self._known.drop(thread_id)
        return cast("Any", self.inner).delete_thread(thread_id)

    # -- inside -------------------------------------------------------------------------------------------------

    def _store(self, thread_id: str, step: int, now: _Known, known: _Known | None) -> None:
        dump = StateDump(
            {_FIELD: list(now.parts)},
            source=self._source,
            sequence=now.position.number,
            previous=None if known is None else known.position.number,
            changes={_FIELD: ("append", 1) if len(now.parts) > 1 else ("set",)},
        )
        self.inner.save_checkpoint(thread_id, step, dump)

    def _seal(self, thread_id: str, step: int, body: bytes, before: Sequence[SealedPart]) -> SealedPart:
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + self._ciphers[self._current].encrypt(nonce, body, _bound_to(thread_id, step, before))
        return {"key": self._current, "step": step, "data": base64.b64encode(sealed).decode()}

    def _unseal(self, thread_id: str, part: SealedPart, before: Sequence[SealedPart]) -> bytes:
        name, step = part["key"], part["step"]
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise DecryptionError(f"it was written with the key {name!r}, which is not given", thread_id=thread_id)
        sealed = base64.b64decode(part["data"], validate=True)
        nonce, body = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        return cipher.decrypt(nonce, body, _bound_to(thread_id, step, before))

    def _open(self, thread_id: str, stored: Envelope) -> list[bytes]:
        """Return the bodies of a stored chain."""
        step = stored["step"]
        try:
            parts: list[SealedPart] = stored["state"][_FIELD]
            bodies = [self._unseal(thread_id, part, parts[:index]) for index, part in enumerate(parts)]
            moved = parts[-1]["step"] != step
        except (LookupError, TypeError, ValueError) as error:
            raise DecryptionError(
                "it is not encrypted, or what was stored is damaged", thread_id=thread_id, step=step
            ) from error
        except self._invalid as error:
            raise DecryptionError(
                "the key is another one, or what was stored was changed or moved", thread_id=thread_id, step=step
            ) from error
        if moved:
            raise DecryptionError("what was stored belongs to another step", thread_id=thread_id, step=step)
        return bodies


def _bound_to(thread_id: str, step: int, before: Sequence[SealedPart]) -> bytes:
    """Return what a part is authenticated with, beside its content: its place."""
    link = before[-1]["data"][-24:] if before else ""  # the end of the base64 holds the whole tag
    return f"jianmu checkpoint 1\n{encode_label(thread_id)}\n{step}\n{len(before)}\n{link}".encode()


def _check_keys(keys: Mapping[str, bytes], current: str | None) -> None:
    if not keys:
        raise ConfigurationError("keys is empty; give at least one, such as {'2026-05': os.urandom(32)}")
    for name, key in keys.items():
        if not name or len(key) not in _KEY_BYTES:
            raise ConfigurationError(f"key {name!r} has {len(key)} bytes; a named key of 16, 24 or 32 is needed")
    if current is not None and current not in keys:
        raise ConfigurationError(f"current is {current!r}, which is not among the keys {sorted(keys)}")

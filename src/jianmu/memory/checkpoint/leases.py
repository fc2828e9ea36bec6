"""The right to write one thread: taken for a span, renewed while its holder lives, taken over when he does not.

Each lease has a fencing token that is higher than those before it. A save carries the token of the lease that its
checkpointer holds, and the backend refuses a save whose token is not the thread's current one.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from pathlib import Path
from typing import NamedTuple, Protocol
from uuid import uuid4

from jianmu.errors import ConfigurationError, StaleWriterError, ThreadLockedError
from jianmu.memory.checkpoint.capabilities import ThreadLease

_log = logging.getLogger("jianmu.checkpoint")


class LeaseRecord(NamedTuple):
    """A lease as it is stored: its token, who holds it, and when its time is over (seconds since the epoch)."""

    token: int
    holder: str
    expires_at: float
    expired: bool


class LeaseRows(Protocol):
    """Where leases are stored. Each method is atomic."""

    def take_lease(self, thread_id: str, holder: str, span: float, dead: int | None) -> int | None:
        """Take a thread for ``span`` seconds if nobody has it, its lease is over, or its token is ``dead``.

        Returns:
            The new lease's token, or None when somebody else has the thread.
        """
        ...

    def read_lease(self, thread_id: str) -> LeaseRecord | None:
        """Return the thread's lease, if there is one."""
        ...

    def renew_lease(self, thread_id: str, token: int, span: float) -> bool:
        """Let a lease run for ``span`` seconds from now; False when it was lost."""
        ...

    def release_lease(self, thread_id: str, token: int) -> None:
        """Give a lease back; nothing happens when it was lost before."""
        ...


class Leases:
    """The leases that one checkpointer holds, and the daemon thread that renews them.

    Args:
        rows: where they are stored.
        span: seconds that a lease runs without being renewed.
    """

    def __init__(self, rows: LeaseRows, span: float) -> None:
        if span <= 0:
            raise ConfigurationError(f"lease_ttl is {span!r} seconds; give more than 0")
        self._rows = rows
        self._span = span
        self._tokens: dict[str, int] = {}
        self._changed = threading.Condition()
        self._renewer: threading.Thread | None = None

    def token(self, thread_id: str) -> int | None:
        """Return the fencing token that a save of this thread must carry; None when no lease was taken here."""
        return self._tokens.get(thread_id)

    def take(self, thread_id: str) -> ThreadLease:
        """Take a thread and keep it until it is given back.

        Raises:
            ThreadLockedError: a living holder has it.
        """
        token = self._take(thread_id)
        with self._changed:
            self._tokens[thread_id] = token
            if self._renewer is None:
                self._renewer = threading.Thread(target=self._renew, name="jianmu-leases", daemon=True)
                self._renewer.start()
        return ThreadLease(thread_id=thread_id, token=token)

    def give_back(self, lease: ThreadLease) -> None:
        """Let others have a thread."""
        thread_id = lease.thread_id
        with self._changed:
            if self._tokens.get(thread_id) == lease.token:
                del self._tokens[thread_id]
            self._changed.notify_all()
        try:
            self._rows.release_lease(thread_id, lease.token)
        except Exception:
            # What was done under the lease is done; an error here would hide it. The lease ends by itself.
            _log.warning("could not give back the lease of thread %r", thread_id, exc_info=True)

    def _take(self, thread_id: str) -> int:
        token = self._rows.take_lease(thread_id, _holder(), self._span, None)
        if token is None:
            known = self._rows.read_lease(thread_id)
            dead = known.token if known is not None and _is_dead(known.holder) else None
            token = self._rows.take_lease(thread_id, _holder(), self._span, dead)
            if token is None:
                by = "" if known is None else f" (process {_describe(known.holder)})"
                raise ThreadLockedError(f"another runner works on it{by}", thread_id=thread_id)
        return token

    def _renew(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._tokens, timeout=self._span / 3)
                held = list(self._tokens.items())
                if not held:
                    self._renewer = None
                    return
            for thread_id, token in held:
                try:
                    self._rows.renew_lease(thread_id, token, self._span)
                except Exception:
                    # The next round tries again; if the lease is lost meanwhile, the next save is refused.
                    _log.warning("could not renew the lease of thread %r", thread_id, exc_info=True)


def check_fence(thread_id: str, token: int | None, current: LeaseRecord | None) -> bool:
    """Refuse a save that has no right to the thread.

    Args:
        thread_id: the thread.
        token: the fencing token that the save carries, if its checkpointer took a lease.
        current: the thread's lease as it is stored.

    Returns:
        True when the save is welcome but the stored lease is over and must be removed, so that its holder, should he
        come back, is refused.

    Raises:
        StaleWriterError: the lease of this writer was lost.
        ThreadLockedError: another living holder has the thread.
    """
    if token is not None:
        if current is None or current.token != token:
            raise stale_writer(thread_id, token)
        return False
    if current is not None and not current.expired:
        raise locked(thread_id)
    return current is not None


def stale_writer(thread_id: str, token: int | None) -> StaleWriterError:
    """Make the error for a save under a lease that was lost."""
    return StaleWriterError(
        f"the lease with token {token} was lost to another writer; load the thread again before going on",
        thread_id=thread_id,
    )


def locked(thread_id: str) -> ThreadLockedError:
    """Make the error for a save of a thread that somebody else holds."""
    return ThreadLockedError("another writer holds its lock; this save was refused", thread_id=thread_id)


def _holder() -> str:
    """Name this process, so that another one on the same machine can see whether it still lives."""
    return f"{_machine()} {os.getpid()} {_started(os.getpid())} {uuid4().hex}"


def _is_dead(holder: str) -> bool:
    """Tell whether a holder is known to be dead; one on another machine is not."""
    machine, _, rest = holder.partition(" ")
    pid, started, *_ = [*rest.split(" "), "", ""]
    if machine != _machine() or not pid.isdecimal():
        return False
    return _started(int(pid)) != started


def _describe(holder: str) -> str:
    parts = holder.split(" ")
    return f"{parts[1]} on {'this machine' if parts[0] == _machine() else 'another machine'}" if len(parts) > 1 else "?"


def _machine() -> str:
    """Return what processes share that can see each other's numbers: a boot of one machine, and a container on it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}:{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname().replace(" ", "-") or "unknown"


def _started(pid: int) -> str:
    """Return when a process started, in a form that only compares; empty when there is no such process."""
    try:
        # The name in brackets may hold spaces and brackets itself; the start time is the 20th field behind it.
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except OSError:
        return "" if Path("/proc/self/stat").exists() else _alive(pid)


def _alive(pid: int) -> str:
    if os.name != "posix":  # elsewhere os.kill ends the process that it asks about
        return "unknown"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        return "unknown"
    return "unknown"

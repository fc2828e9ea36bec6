"""One writer at a time: who holds a thread, who takes over from whom, and whose saves are refused."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.engines import Engine

from jianmu.errors import ThreadLockedError

ROOT = Path(__file__).parents[2]


class Holder:
    """A child process that holds the thread."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.token = int(self.answer())

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def save(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("save\n")
        self.process.stdin.flush()
        return self.answer()


@contextmanager
def holding(engine: Engine, lease_ttl: float) -> Iterator[Holder]:
    command = [sys.executable, "-m", "tests.faults.engine_holder", engine.spec, str(lease_ttl)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Holder(process)
        finally:
            process.kill()


def take_over(checkpointer: Any) -> Any:
    """Ask for the lock until its time is over."""
    attempt = threading.Event()
    for _ in range(1000):
        lock = checkpointer.lock("chat")
        try:
            return lock, lock.__enter__()
        except ThreadLockedError:
            attempt.wait(0.02)
    raise AssertionError("the lease never ended")


def test_a_living_holder_keeps_others_out(engine: Engine) -> None:
    """The lock is refused, and so are saves without it."""
    with holding(engine, 30) as holder:
        checkpointer = engine.open()
        with pytest.raises(ThreadLockedError, match=f"process {holder.process.pid} on this machine"):
            checkpointer.lock("chat").__enter__()
        with pytest.raises(ThreadLockedError):
            checkpointer.save_checkpoint("chat", 9, {"by": "intruder"})
        assert holder.save() == "saved"
        assert checkpointer.get_checkpoint("chat")["state"] == {"by": "holder"}
        with pytest.raises(ThreadLockedError):
            checkpointer.save_checkpoint("chat", 9, {"by": "intruder"})


def test_a_dead_holder_is_replaced_at_once(engine: Engine) -> None:
    """Nobody waits for the lease of a process of this machine that was killed."""
    with holding(engine, 3600) as holder:
        assert holder.save() == "saved"
        holder.process.send_signal(signal.SIGKILL)
        holder.process.wait()
        checkpointer = engine.open()
        with checkpointer.lock("chat") as lease:
            assert lease.token > holder.token
            checkpointer.save_checkpoint("chat", 2, {"by": "successor"})
        assert checkpointer.get_checkpoint("chat")["state"] == {"by": "successor"}


def test_a_stale_writer_is_refused(engine: Engine) -> None:
    """A holder that was frozen past its lease's end wakes up, saves, and learns that it lost the thread."""
    with holding(engine, 0.3) as holder:
        assert holder.save() == "saved"
        os.kill(holder.process.pid, signal.SIGSTOP)
        checkpointer = engine.open()
        lock, lease = take_over(checkpointer)
        assert lease.token > holder.token
        checkpointer.save_checkpoint("chat", 2, {"by": "successor"})
        os.kill(holder.process.pid, signal.SIGCONT)
        assert holder.save() == "StaleWriterError"
        lock.__exit__(None, None, None)
        assert holder.save() == "StaleWriterError"
        assert checkpointer.get_checkpoint("chat")["state"] == {"by": "successor"}


def test_a_save_after_the_lease_of_a_frozen_holder_shuts_the_holder_out(engine: Engine) -> None:
    """Also a writer that takes no lock may go on then, and the late holder is refused, not merged."""
    with holding(engine, 0.3) as holder:
        os.kill(holder.process.pid, signal.SIGSTOP)
        checkpointer = engine.open()
        attempt = threading.Event()
        for _ in range(1000):
            try:
                checkpointer.save_checkpoint("chat", 5, {"by": "passer-by"})
                break
            except ThreadLockedError:
                attempt.wait(0.02)
        os.kill(holder.process.pid, signal.SIGCONT)
        assert holder.save() == "StaleWriterError"
        assert checkpointer.get_checkpoint("chat")["state"] == {"by": "passer-by"}


def test_a_lease_is_renewed_while_its_holder_lives(engine: Engine) -> None:
    """A tick that takes longer than the lease does not lose the thread."""
    with holding(engine, 0.3) as holder:
        checkpointer = engine.open()
        attempt = threading.Event()
        for _ in range(45):
            with pytest.raises(ThreadLockedError):
                checkpointer.lock("chat").__enter__()
            attempt.wait(0.02)
        assert holder.save() == "saved"


def test_a_lease_that_nobody_else_took_is_still_good(engine: Engine) -> None:
    """A holder that was frozen for long and was not missed goes on."""
    with holding(engine, 0.2) as holder:
        os.kill(holder.process.pid, signal.SIGSTOP)
        threading.Event().wait(0.4)
        os.kill(holder.process.pid, signal.SIGCONT)
        assert holder.save() == "saved"


def test_tokens_only_grow(engine: Engine) -> None:
    """Across checkpointers, and across the deletion of the thread."""
    tokens = []
    for _ in range(3):
        checkpointer = engine.open()
        with checkpointer.lock("chat") as lease:
            tokens.append(lease.token)
            checkpointer.save_checkpoint("chat", 1, {})
        checkpointer.delete_thread("chat")
    assert tokens == sorted(set(tokens))


def test_deleting_a_thread_does_not_end_its_lease(engine: Engine) -> None:
    holder, other = engine.open(), engine.open()
    with holder.lock("chat"):
        holder.save_checkpoint("chat", 1, {"a": 1})
        assert other.delete_thread("chat")
        assert holder.get_checkpoint("chat") is None
        with pytest.raises(ThreadLockedError):
            other.save_checkpoint("chat", 1, {})
        holder.save_checkpoint("chat", 2, {"a": 2})
        assert other.get_checkpoint("chat")["state"] == {"a": 2}
    other.save_checkpoint("chat", 3, {})


def test_one_checkpointer_locks_a_thread_once(engine: Engine) -> None:
    """Two runs in one process exclude each other as two processes do."""
    checkpointer = engine.open()
    with checkpointer.lock("chat"), checkpointer.lock("other"), pytest.raises(ThreadLockedError):
        checkpointer.lock("chat").__enter__()
    with checkpointer.lock("chat"):
        pass


def test_a_lock_leaves_no_thread_behind(engine: Engine) -> None:
    checkpointer = engine.open()
    with checkpointer.lock("chat"):
        assert checkpointer.list_threads() == []
    assert checkpointer.list_threads() == []
    assert not checkpointer.delete_thread("chat")

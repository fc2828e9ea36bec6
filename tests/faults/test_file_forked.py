"""A process that is forked off while its parent writes and holds a thread."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from jianmu.memory import FileCheckpointer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def in_child(work: Callable[[], object]) -> str:
    """Do something in a forked child; return ``done`` or the name of the error."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work()
            os.write(theirs, b"done")
        except BaseException as error:
            os.write(theirs, type(error).__name__.encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return answer


def test_a_forked_child_is_another_writer(tmp_path: Path) -> None:
    """R15: it holds neither the lock nor the open files of its parent, and does not take them away either."""
    checkpointer = FileCheckpointer(tmp_path)
    checkpointer.save_checkpoint("t", 1, {})
    with checkpointer.lock("t"):
        assert in_child(lambda: checkpointer.save_checkpoint("t", 2, {})) == "ThreadLockedError"
        assert in_child(lambda: checkpointer.save_checkpoint("free", 2, {})) == "done"
        checkpointer.save_checkpoint("t", 3, {})
        assert in_child(lambda: FileCheckpointer(tmp_path).save_checkpoint("t", 2, {})) == "ThreadLockedError"
    assert in_child(lambda: checkpointer.save_checkpoint("t", 4, {})) == "done"
    with checkpointer.lock("t"):
        checkpointer.save_checkpoint("t", 5, {})
    assert [info.step for info in checkpointer.list_checkpoints("t")] == [5, 4, 3, 1]


_HOLDER_WITH_A_CHILD = """
import os, sys
from jianmu.memory import FileCheckpointer
with FileCheckpointer(sys.argv[1]).lock("t"):
    if os.fork() == 0:
        os.write(1, b"forked\\n")
        os.read(int(sys.argv[2]), 1)
        os._exit(0)
    sys.stdin.read()
"""


def test_a_child_that_lives_on_does_not_keep_the_lock_of_its_dead_parent(tmp_path: Path) -> None:
    """R15: the lock is the holder's own; a helper process that it left behind has no part in it."""
    ours, theirs = os.pipe()
    command = [sys.executable, "-c", _HOLDER_WITH_A_CHILD, str(tmp_path), str(ours)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[ours]) as holder:
        os.close(ours)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "forked\n"
        holder.kill()
        holder.wait()
        with FileCheckpointer(tmp_path).lock("t"):
            pass
        os.close(theirs)  # lets the child go

"""Who is known to be dead, and whose saves are refused."""

import os
import subprocess
import sys

import pytest

from jianmu.errors import StaleWriterError, ThreadLockedError
from jianmu.memory.checkpoint import leases
from jianmu.memory.checkpoint.leases import LeaseRecord, check_fence

LIVE = LeaseRecord(7, "somebody", 0.0, expired=False)
OVER = LeaseRecord(7, "somebody", 0.0, expired=True)


@pytest.mark.parametrize(("token", "current"), [(None, None), (7, LIVE), (7, OVER)])
def test_who_may_save(token: int | None, current: LeaseRecord | None) -> None:
    """Everybody while nobody holds the thread, and its holder, also a late one that nobody replaced."""
    assert check_fence("t", token, current) is False


def test_who_comes_after_a_lease_that_is_over_shuts_its_holder_out() -> None:
    assert check_fence("t", None, OVER) is True


@pytest.mark.parametrize(
    ("token", "current", "error"),
    [
        (None, LIVE, ThreadLockedError),
        (6, LIVE, StaleWriterError),
        (6, OVER, StaleWriterError),
        (7, None, StaleWriterError),
    ],
)
def test_who_may_not(token: int | None, current: LeaseRecord | None, error: type[Exception]) -> None:
    with pytest.raises(error, match="'t'"):
        check_fence("t", token, current)


def test_this_process_is_alive() -> None:
    assert not leases._is_dead(leases._holder())


def test_a_process_that_ended_is_dead() -> None:
    """Also while nobody has asked for its exit code, and when its number was given to another process."""
    code = "from jianmu.memory.checkpoint import leases; print(leases._holder(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        holder = child.stdout.readline()
        assert not leases._is_dead(holder)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and still in the table of processes
        assert leases._is_dead(holder)
    machine, pid, started, rest = holder.split(" ")
    assert leases._is_dead(f"{machine} {os.getpid()} {started} {rest}")
    assert pid != str(os.getpid())


@pytest.mark.parametrize("holder", ["", "elsewhere 1 2 3", "nonsense", "a b c d e"])
def test_nothing_is_known_of_holders_elsewhere(holder: str) -> None:
    """Their lease has to run out."""
    assert not leases._is_dead(holder)

"""A process that makes writers, one for each order it reads: a fork is made in no time, so they can be killed often."""

import os
import sys
from contextlib import nullcontext
from typing import Any

from jianmu.memory import FileCheckpointer


def content(step: int, weight: int) -> dict[str, Any]:
    """What the state holds after a tick; a heavy one takes the kernel long enough to be killed inside a write."""
    return {"count": step, "messages": [{"id": index, "text": f"{step}" * weight} for index in range(20)]}


def write(folder: str, thread_id: str, weight: int, keep_last: int | None, locked: bool) -> None:
    """Go on from the newest checkpoint, save one tick after the other and say so."""
    checkpointer = FileCheckpointer(folder, fsync=False, keep_last=keep_last)
    with checkpointer.lock(thread_id) if locked else nullcontext():
        found = checkpointer.get_checkpoint(thread_id)
        step = found["step"] if found else 0
        while True:
            step += 1
            checkpointer.save_checkpoint(thread_id, step, content(step, weight), {"root": "RUNNING"}, {"tick": step})
            os.write(1, b"%d\n" % step)


def main() -> None:
    for order in sys.stdin:
        folder, thread_id, weight, keep_last, locked = order.rstrip("\n").split("\t")
        child = os.fork()
        if child == 0:
            os.write(1, b"%d\n" % os.getpid())
            write(folder, thread_id, int(weight), int(keep_last) or None, locked == "True")
        os.waitpid(child, 0)
        os.write(1, b"over\n")


if __name__ == "__main__":
    main()

"""Many child processes that work on the same threads; prints what each of them knows to have saved."""

import json
import multiprocessing
import random
import sys
import time
from typing import Any

from tests.engines import Engine

from jianmu.errors import ThreadLockedError


def consistent(state: dict[str, Any]) -> bool:
    """Whether a state is one that somebody saved: its parts were written together and agree."""
    return state["count"] == len(state["entries"]) == sum(state["by_worker"].values())


def work(spec: str, worker: int, threads: int, seconds: float, answers: Any) -> None:
    """Take a thread, add an entry to what it holds, save, let it go; now and then read or intrude without a lock."""
    checkpointer = Engine.of(spec).open(keyframe_every=7)
    dice = random.Random(worker)
    saved: list[tuple[str, str]] = []
    torn = refused = intruded = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        thread = f"thread-{dice.randrange(threads)}"
        found = checkpointer.get_checkpoint(thread)
        torn += found is not None and not consistent(found["state"])
        try:
            with checkpointer.lock(thread):
                found = checkpointer.get_checkpoint(thread)
                state = found["state"] if found else {"count": 0, "entries": [], "by_worker": {}}
                entry = f"{worker}:{len(saved)}"
                state["entries"].append(entry)
                state["count"] += 1
                state["by_worker"][str(worker)] = state["by_worker"].get(str(worker), 0) + 1
                checkpointer.save_checkpoint(thread, state["count"], state)
                saved.append((thread, entry))
                if len(saved) % 10 == 0:
                    intruder = Engine.of(spec).open() if intruded == 0 else intruder  # noqa: F821
                    intruded += 1
                    try:
                        intruder.save_checkpoint(thread, 0, {"count": -1, "entries": [], "by_worker": {}})
                    except ThreadLockedError:
                        refused += 1
        except ThreadLockedError:
            continue
    checkpointer.close()
    answers.put({"saved": saved, "torn": torn, "intruded": intruded, "refused": refused})


def main() -> None:
    spec, workers, threads, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    context = multiprocessing.get_context("fork")
    answers: Any = context.SimpleQueue()
    Engine.of(spec).open().close()
    crowd = [context.Process(target=work, args=(spec, n, threads, seconds, answers)) for n in range(workers)]
    for process in crowd:
        process.start()
    print(json.dumps([answers.get() for _ in crowd]))
    for process in crowd:
        process.join()


if __name__ == "__main__":
    main()

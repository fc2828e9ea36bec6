"""One of several processes that write the same threads; says what it saved.

Every save carries a signature in each of its parts, so that a checkpoint mixed of two shows.
"""

import json
import sys
from typing import Any

from jianmu.memory import FileCheckpointer


def signed(writer: int, step: int) -> dict[str, Any]:
    """What a writer saves: of very different lengths, so that lines that overlap are found."""
    return {
        "step": step,
        "state": {"by": [writer, step], "messages": [{"by": [writer, step]}] * (step % 7 * 20)},
        "tree": {"root": f"{writer} {step}"},
        "runtime_metadata": {"by": [writer, step]},
    }


def is_whole(envelope: dict[str, Any]) -> bool:
    """Tell whether a checkpoint is one that somebody saved."""
    return envelope == signed(*envelope["state"]["by"])


def main() -> None:
    folder, writer, saves, keep_last, pruning = json.loads(sys.argv[1])
    checkpointer = FileCheckpointer(folder, fsync=False, keep_last=keep_last)
    print("ready", flush=True)
    sys.stdin.readline()  # all begin together
    torn = 0
    for number in range(saves):
        step = number * 10 + writer  # no two writers have a step in common
        for thread in ("a", "b"):
            envelope = signed(writer, step)
            checkpointer.save_checkpoint(
                thread, step, envelope["state"], envelope["tree"], envelope["runtime_metadata"]
            )
            torn += not is_whole(checkpointer.get_checkpoint(thread) or {"state": {"by": [0, 0]}})
        if pruning and number % 5 == writer:
            checkpointer.prune("b", keep_last=pruning)
    print(torn)


if __name__ == "__main__":
    main()

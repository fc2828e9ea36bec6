"""A child process that holds a thread's lock and saves each time it is asked to; says how that went."""

import sys

from tests.engines import Engine

from jianmu.errors import CheckpointError


def main() -> None:
    checkpointer = Engine.of(sys.argv[1]).open(lease_ttl=float(sys.argv[2]))
    with checkpointer.lock("chat") as lease:
        print(lease.token, flush=True)
        for step, _ in enumerate(sys.stdin, start=1):
            try:
                checkpointer.save_checkpoint("chat", step, {"by": "holder"})
                print("saved", flush=True)
            except CheckpointError as error:
                print(type(error).__name__, flush=True)


if __name__ == "__main__":
    main()

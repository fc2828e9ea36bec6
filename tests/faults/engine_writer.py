"""A child process that saves one tick after the other and says so, until it is killed."""

import sys

from tests.engines import Engine


def content(step: int) -> dict[str, object]:
    """What the state holds after a tick: it grows, so that patches and keyframes both occur."""
    return {"count": step, "messages": [{"id": index, "text": f"message {index}"} for index in range(step)]}


def main() -> None:
    checkpointer = Engine.of(sys.argv[1]).open(keyframe_every=5)
    found = checkpointer.get_checkpoint("chat")
    step = found["step"] if found else 0
    with checkpointer.lock("chat"):
        while True:
            step += 1
            checkpointer.save_checkpoint("chat", step, content(step), {"root": "RUNNING"}, {"tick": step})
            print(step, flush=True)


if __name__ == "__main__":
    main()

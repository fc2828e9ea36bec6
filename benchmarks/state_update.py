"""What does it cost to change one field of a state that holds many messages?

Ours beside the same state as a plain pydantic model with ``validate_assignment``, which checks the whole list anew.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Annotated

from pydantic import BaseModel, ConfigDict

from jianmu import Message, StateManager
from jianmu.state import append


class Chat(BaseModel):
    messages: Annotated[list[Message], append] = []
    topic: str = ""


class PlainChat(BaseModel):
    model_config = ConfigDict(validate_assignment=True)

    messages: list[Message] = []
    topic: str = ""


def microseconds(call: Callable[[], object], repeats: int) -> float:
    """Return the median over several rounds."""
    rounds = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        rounds.append((time.perf_counter() - start) / repeats * 1e6)
    return statistics.median(rounds)


def measure(count: int, repeats: int) -> dict[str, float]:
    message = Message.user("How many?")
    history = [Message.user(f"message {number}") for number in range(count)]
    ours = StateManager(Chat)
    ours.initialize({"messages": history})
    plain = PlainChat(messages=history)

    def append_plain() -> None:
        plain.messages = [*plain.messages, message]

    few = max(1, repeats * 10 // count) if count > 10 else repeats
    return {
        "read messages": microseconds(lambda: ours.get("messages"), repeats),
        "update topic": microseconds(lambda: ours.update(topic="tea"), repeats),
        "append a message": microseconds(lambda: ours.update(messages=message), few),
        "pydantic: append a message": microseconds(append_plain, max(1, few // 10)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    repeats = 200 if parser.parse_args().quick else 5000
    small, large = measure(10, repeats), measure(10_000, repeats)
    print("| microseconds a call | 10 messages | 10,000 messages | ratio |")
    print("|---|---|---|---|")
    for name, cost in small.items():
        print(f"| {name} | {cost:.2f} | {large[name]:.2f} | {large[name] / cost:.1f} |")


if __name__ == "__main__":
    main()

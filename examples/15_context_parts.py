"""The parts of a prompt: a skill, memory that is looked up, the time of day, filters of one's own."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel

from jianmu.memory import SimpleStore
from jianmu.memory.context import ContextBuilder, Group, LongTermMemoryProvider, Stability, TextProvider
from jianmu.messages import Message, ToolCall
from jianmu.state import StateManager, append


class Chat(BaseModel):
    """What the agent keeps of a conversation."""

    messages: Annotated[list[Message], append] = []
    skill_began: int = 0


def without_small_talk(groups: Sequence[Group]) -> list[Group]:
    return [group for group in groups if "weather" not in group.messages[0].text]


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = SimpleStore(db_path=Path(folder) / "memory.json")
        store.record("The user drinks green tea", namespace=("user-7",), key="drink")

        state = StateManager(Chat)
        state.initialize(
            {
                "messages": [
                    Message.user("I want to buy something."),
                    Message.user("Nice weather."),
                    Message.user("Which tea did I like?"),
                    Message.assistant("", [ToolCall(id="c1", name="search")]),  # a crash came before the result
                ],
                "skill_began": 1,
            }
        )
        builder = ContextBuilder.for_skill(
            "How to advise: ask one thing at a time.",
            system="You sell tea.",
            since="skill_began",
            filters=[without_small_talk],
            providers=[
                LongTermMemoryProvider(memory=store, namespace=("user-7",)),
                TextProvider("It is nine in the morning.", "clock", Stability.VOLATILE),
            ],
        )
        built = await builder.build(state)
        for message in built.messages:
            print(f"[{message.role}] {message.text or message.tool_calls[0].name}")


asyncio.run(main())

"""A summary takes the place of what no longer fits; stored once, it comes back with every checkpoint."""

import asyncio
from typing import Annotated

from pydantic import BaseModel

from jianmu.memory.context import ContextBuilder
from jianmu.messages import Message
from jianmu.state import StateManager, append


class Chat(BaseModel):
    """What the agent keeps of a conversation."""

    messages: Annotated[list[Message], append] = []


async def summarise(messages: list[Message]) -> str:
    # Here a model would be asked.
    asked = [message.text for message in messages if message.role == "user"]
    return f"{len(asked)} questions, from {asked[0]!r} to {asked[-1]!r}"


async def main() -> None:
    talk = [
        message
        for number in range(200)
        for message in (Message.user(f"What about number {number}?"), Message.assistant(f"Number {number} is fine."))
    ]
    state = StateManager(Chat)
    state.initialize({"messages": talk})
    builder = ContextBuilder.for_react("You know numbers.", budget=1_000, summarise=summarise)

    for _ in range(2):
        built = await builder.build(state)
        print(f"summary {built.report.summary}, {len(built.messages)} messages, {built.tokens} tokens")
        print(built.messages[1].text)
        if built.summary is not None:
            state.update(messages=built.summary)  # appended like any message: nothing stored is lost


asyncio.run(main())

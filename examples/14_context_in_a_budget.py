"""A prompt from the state, within a budget: old tool results are cleared first, then the oldest turns go."""

import asyncio
from typing import Annotated

from pydantic import BaseModel

from jianmu.memory.context import ContextBuilder, common_prefix
from jianmu.messages import Message, ToolCall
from jianmu.state import StateManager, append
from jianmu.tools import tool


@tool
def search(query: str) -> str:
    """Search the shop."""
    return f"results for {query}"


class Chat(BaseModel):
    """What the agent keeps of a conversation."""

    messages: Annotated[list[Message], append] = []


def turn(number: int) -> list[Message]:
    call = ToolCall(id=f"call-{number}", name="search", arguments={"query": f"tea {number}"})
    return [
        Message.user(f"Is there tea number {number}?"),
        Message.assistant("", [call]),
        Message.tool_result(call.id, f"tea {number}: " + "a long description " * 40, name="search"),
        Message.assistant(f"Yes, tea {number} is there."),
    ]


async def main() -> None:
    state = StateManager(Chat)
    state.initialize({"messages": [message for number in range(100) for message in turn(number)]})
    before = len(state.get("messages"))

    for limit in (128_000, 10_000, 3_000):
        builder = ContextBuilder.for_react("You sell tea.", [search], budget=limit)
        built = await builder.build(state)
        report = built.report
        print(
            f"{limit:>7} tokens: {len(built.messages)} messages, {built.tokens} tokens,"
            f" {report.cleared} results cleared, {report.dropped} groups left out"
        )

    # The next turn begins like this one, so a provider's prompt cache holds.
    state.update(messages=turn(100))
    later = await builder.build(state)
    print(f"the next prompt begins with {common_prefix(built, later).share:.0%} of itself unchanged")

    # The stored history is as it was, plus the new turn.
    print("stored:", len(state.get("messages")) - before, "new messages")


asyncio.run(main())

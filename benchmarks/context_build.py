"""How long does it take to build a prompt from a long history, and how much of it can a prompt cache keep?

A chat of an agent that searches is cut to a budget, then goes on turn by turn. Beside ours: ``trim_messages`` of
langchain-core on the same messages, set up as its documentation advises, with the same approximate counter (four
characters are a token). *first* is the first prompt of a builder, *next* the median of the prompts after it,
*unchanged* how much of a prompt is what the one before began with: what a prompt cache saves.

    python benchmarks/context_build.py [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately

from jianmu.memory.context import ContextBuilder, EstimateTokenCounter, TokenBudget
from jianmu.messages import Message, ToolCall

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SYSTEM = "You are a helpful shop assistant. Answer in the language of the question."
TURN = 4
"""Messages in a turn: a question, a call, its result, an answer."""


class ApproximateCounter:
    """Four characters are a token."""

    def count(self, text: str) -> int:
        """Return the number of tokens, rounded up."""
        return -(-len(text) // 4)


class State:
    """Holds the history."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def get(self, field: str) -> list[Message]:
        """Return the history, whatever the field."""
        return self.messages


def turn(number: int) -> list[Message]:
    call = ToolCall(id=f"call_{number}", name="search", arguments={"query": f"green tea {number}", "limit": 5})
    return [
        Message.user(f"Question {number}: which green tea is in stock, and when would it reach Berlin?"),
        Message.assistant("", [call]),
        Message.tool_result(call.id, f"result {number}: " + "sencha, 100 g, 12.50 EUR, in stock; " * 8, name="search"),
        Message.assistant(f"Answer {number}: sencha is in stock at 12.50 EUR and would reach Berlin in two days."),
    ]


def theirs(message: Message) -> Any:
    if message.role == "user":
        return HumanMessage(message.text)
    if message.role == "tool":
        return ToolMessage(message.text, tool_call_id=message.tool_call_id, name=message.name)
    calls = [{"id": call.id, "name": call.name, "args": call.arguments} for call in message.tool_calls]
    return AIMessage(message.text, tool_calls=calls)


def our_builder(counter: Any, budget: int) -> Callable[[list[Message]], Awaitable[tuple[float, list[str]]]]:
    state = State()
    builder = ContextBuilder.for_react(SYSTEM, counter=counter, budget=TokenBudget(limit=budget, reserve=0))

    async def build(history: list[Message]) -> tuple[float, list[str]]:
        state.messages = history
        started = time.perf_counter()
        built = await builder.build(state)
        seconds = time.perf_counter() - started
        return seconds, [f"{it.role} {it.text} {it.tool_calls}" for it in built.messages]

    return build


def their_builder(budget: int) -> Callable[[list[Message]], Awaitable[tuple[float, list[str]]]]:
    system = SystemMessage(SYSTEM)
    known: list[Any] = []

    async def build(history: list[Message]) -> tuple[float, list[str]]:
        known.extend(map(theirs, history[len(known) :]))
        started = time.perf_counter()
        kept = trim_messages(
            [system, *known],
            max_tokens=budget,
            token_counter=count_tokens_approximately,
            strategy="last",
            start_on="human",
            end_on=("human", "tool", "ai"),
            include_system=True,
        )
        seconds = time.perf_counter() - started
        return seconds, [f"{it.type} {it.content} {getattr(it, 'tool_calls', '')}" for it in kept]

    return build


def share_unchanged(before: list[str], after: list[str]) -> float:
    equal = next((at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
    return sum(map(len, after[:equal])) / sum(map(len, after))


async def measure(build: Any, messages: int, rounds: int) -> dict[str, Any]:
    history = [message for number in range(messages // TURN) for message in turn(number)]
    first, prompt = await build(history)
    prompts, seconds = [prompt], []
    for number in range(messages // TURN, messages // TURN + rounds):
        history = [*history, *turn(number)]
        took, prompt = await build(history)
        prompts.append(prompt)
        seconds.append(took)
    unchanged = statistics.mean(share_unchanged(*pair) for pair in pairwise(prompts))
    return {"first": first, "next": statistics.median(seconds), "kept": len(prompts[0]), "unchanged": unchanged}


async def main(quick: bool) -> None:
    await their_builder(1_000)(turn(0))  # the first call imports what it needs
    print("| messages | budget | builder | first, ms | next, ms | messages in the prompt | unchanged |")
    print("|---:|---:|---|---:|---:|---:|---:|")
    for messages in (100, 1_000) if quick else (100, 1_000, 10_000):
        for budget in (8_000,) if quick else (8_000, 128_000):
            builders = {
                "jianmu, same counter": our_builder(ApproximateCounter(), budget),
                "jianmu, its own estimate": our_builder(EstimateTokenCounter(), budget),
                "langchain-core trim_messages": their_builder(budget),
            }
            for name, build in builders.items():
                row = await measure(build, messages, rounds=3 if quick else 40)
                print(
                    f"| {messages:,} | {budget:,} | {name} | {1000 * row['first']:.1f} | {1000 * row['next']:.1f} "
                    f"| {row['kept']:,} | {row['unchanged']:.0%} |"
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few seconds, for a first look")
    asyncio.run(main(parser.parse_args().quick))

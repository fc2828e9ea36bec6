"""One process of the demo: an agent that works for the tea shop, as a user of Jianmu would write it."""

import argparse
import asyncio
import os
from pathlib import Path

from py_trees.common import Status

from demo.screen import EventPrinter, console
from demo.shop import WriteLedger, read_order
from jianmu import Message, ReactiveRunner, RuntimeEventBus, StateManager
from jianmu.agents import ReactState, react_agent
from jianmu.events import JsonLinesSink
from jianmu.memory import FileCheckpointer, MemoryService, SimpleStore
from jianmu.models import OpenAIChatModel

SYSTEM = """You are the clerk of a small tea shop.
To fulfil an order: read it with read_order, store what the customer's note tells about the customer with memory_add
(each fact once, in the language of the note, naming the customer), write each item into the ledger with write_ledger,
and say the total. To answer a question about a customer: look into memory_search first, in the language of the
question, and answer from what it returns."""


def model_name() -> str:
    """Name the model to ask."""
    return os.environ.get("OPENAI_MODEL", "gpt-4.1-mini")


async def work(folder: Path, thread: str, ask: str | None, hold_after: int | None) -> bool:
    """Run the agent; without a question it goes on where the thread was.

    Args:
        folder: holds everything the demo leaves.
        thread: the thread's name.
        ask: what the user says.
        hold_after: see `WriteLedger`.
    """
    memory = MemoryService(SimpleStore(folder / "store.json"), namespace=("tea-shop",))
    tools = [read_order, WriteLedger(folder / "ledger.jsonl", hold_after), *memory.as_tools()]
    events, state = RuntimeEventBus(), StateManager(ReactState)
    async with OpenAIChatModel(model_name()) as model:
        agent = react_agent(model, tools, system_prompt=SYSTEM, name="clerk")
        events.attach(EventPrinter(agent, state))
        events.attach(JsonLinesSink(folder / "events.jsonl"))
        runner = ReactiveRunner(agent, state, events=events)
        result = await runner.run(
            {"messages": [Message.user(ask)]} if ask else None,
            checkpointer=FileCheckpointer(folder / "checkpoints"),
            thread_id=thread,
        )
    events.close()
    for path, error in result.errors:
        console.print(f"  [red]{path}: {error}[/]")
    console.print(f"  [bold]the agent says:[/] {state.get('answer')}")
    return result == Status.SUCCESS


def main(arguments: list[str]) -> int:
    """Run one process of the demo; returns its exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("thread")
    parser.add_argument("--ask")
    parser.add_argument("--hold-after", type=int)
    options = parser.parse_args(arguments)
    return 0 if asyncio.run(work(options.folder, options.thread, options.ask, options.hold_after)) else 1

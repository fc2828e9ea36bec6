"""A set of tools runs what a model asks for, side by side, and answers every call."""

import asyncio

from jianmu.messages import ToolCall
from jianmu.tools import ToolSet, tool


@tool
def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


@tool
async def lookup(word: str) -> dict[str, str]:
    """Look a word up."""
    return {"word": word, "chinese": {"tree": "树", "wood": "木"}[word]}


async def main() -> None:
    tools = ToolSet([multiply, lookup], max_result_chars=2_000)
    calls = [
        ToolCall(name="multiply", arguments={"a": 6, "b": 7}),
        ToolCall(name="lookup", arguments={"word": "tree"}),
        # Whatever goes wrong is an answer that the model can read and learn from.
        ToolCall(name="lookup", arguments={"word": "sky"}),
        ToolCall(name="multiply", arguments={"a": "six"}),
        ToolCall(name="look_up", arguments={"word": "tree"}),
        ToolCall(name="multiply", raw_arguments="{a: 6"),
    ]
    for result in await tools.execute(calls):
        print(f"{result.name}: {result.text}")
    print("failed in a row:", tools.errors)


asyncio.run(main())

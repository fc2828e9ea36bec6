"""A tool as a class: it knows the call it answers, and large sums need a person's word."""

import asyncio
from typing import Any

from jianmu.messages import ToolCall
from jianmu.tools import Tool, ToolContext, ToolSet

INPUT = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "minLength": 1, "description": "who gets it"},
        "amount": {"type": "number", "exclusiveMinimum": 0, "description": "in yuan"},
    },
    "required": ["to", "amount"],
}


def is_large(arguments: dict[str, Any]) -> bool:
    return arguments["amount"] > 1_000


class Transfer(Tool):
    """Sends money."""

    name = "transfer"
    description = "Send money to someone."
    input_schema = INPUT
    effect = "write"
    requires_approval = staticmethod(is_large)
    sequential = True

    def run(self, to: str, amount: float, context: ToolContext) -> str:
        """Send the money."""
        # The context is filled in, never shown to the model. The key is the same when this very call is made again
        # after a crash: a bank that is given it books once.
        return f"sent {amount:g} to {to} (key {context.idempotency_key})"


async def main() -> None:
    tools = ToolSet([Transfer()])
    calls = [
        ToolCall(id="call-1", name="transfer", arguments={"to": "Li", "amount": 50}),
        ToolCall(id="call-2", name="transfer", arguments={"to": "Wang", "amount": 5_000}),
    ]
    asked = await tools.awaiting_approval(calls)
    print("ask a person about:", [call.id for call in asked])

    context = ToolContext(thread_id="session-42", idempotency_key="session-42/pay/1")
    for approved in ([], ["call-2"]):
        results = await tools.execute(calls, context=context, approved=approved)
        print(f"approved {approved}:", [result.text for result in results])


asyncio.run(main())

"""The scripted model behind the local server: it decides from the conversation it is sent, as a real one would."""

import json
import re

from jianmu import ToolCall

QUESTIONS = ("Which tea does Ms Lin like?", "林女士对什么过敏？")
MEMORIES = {"lin-tea": "Ms Lin likes oolong tea, light roast.", "lin-allergy": "林女士对花生过敏，包裹里不能放花生糖。"}


def clerk(request: dict) -> str | list[ToolCall]:
    """Answer one request of the chat completions API.

    Args:
        request: its decoded body.
    """
    messages = request["messages"]
    start = max(at for at, message in enumerate(messages) if message["role"] == "user")
    results = {
        name: [message["content"] for message in messages[start:] if message.get("tool_call_id", "").startswith(name)]
        for name in ("read_order", "memory_add", "write_ledger", "memory_search")
    }
    order = re.search(r"order (\d+)", messages[start]["content"])
    return _fulfil(order[1], results) if order else _recall(results)


def _fulfil(order_id: str, results: dict[str, list[str]]) -> str | list[ToolCall]:
    if not results["read_order"]:
        return [_call("read_order", order_id=order_id)]
    if not results["memory_add"]:
        return [_call("memory_add", key, content=text, key=key) for key, text in MEMORIES.items()]
    items, written = json.loads(results["read_order"][0])["items"], len(results["write_ledger"])
    if written < len(items):
        return [_call("write_ledger", str(written + 1), order_id=order_id, **items[written])]
    total = sum(item["amount"] for item in items)
    return f"Order {order_id} is in the ledger: {written} lines, {total:.2f} in all. I shall remember Ms Lin's wishes."


def _recall(results: dict[str, list[str]]) -> str | list[ToolCall]:
    if not results["memory_search"]:
        return [_call("memory_search", str(at), query=query) for at, query in enumerate(QUESTIONS, 1)]
    best = [re.sub(r"^1\. (.*?)( \(id: .*)?$", r"\1", found.splitlines()[0]) for found in results["memory_search"]]
    return "From my memory: " + " ".join(best)


def _call(name: str, number: str = "1", **arguments: object) -> ToolCall:
    return ToolCall(id=f"{name}-{number}", name=name, arguments=arguments)

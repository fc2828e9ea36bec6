"""A small tea shop: its orders, and the ledger that must never hold a line twice."""

import json
import os
import threading
from pathlib import Path

from pydantic import BaseModel

from jianmu import Tool, tool
from jianmu.behaviours import NOT_DONE
from jianmu.tools import ToolContext

ORDERS = {
    "1042": {
        "customer": "Ms Lin / 林女士",
        "items": [
            {"item": "oolong, light roast", "amount": 36.0},
            {"item": "porcelain cup", "amount": 18.5},
            {"item": "gift box", "amount": 9.0},
        ],
        "note": "I always take the light roast. 我对花生过敏。",
    }
}


@tool
def read_order(order_id: str) -> dict:
    """Read an order: its customer, its items with their amounts, and the customer's note.

    Args:
        order_id: the order's number.
    """
    return ORDERS[order_id]


class Line(BaseModel):
    """What the model gives for a line."""

    order_id: str
    item: str
    amount: float


class WriteLedger(Tool):
    """Appends one line to the ledger: a real side effect, on disk before it answers.

    Args:
        path: the ledger.
        hold_after: once the ledger has so many lines the answer does not come any more: time to be killed.
    """

    name = "write_ledger"
    description = "Write one item of an order into the shop's ledger. Each item must be written exactly once."
    input_schema = Line.model_json_schema()
    effect = "write"
    sequential = True

    def __init__(self, path: Path, hold_after: int | None = None) -> None:
        self._path = path
        self._hold_after = hold_after

    def run(self, order_id: str, item: str, amount: float, context: ToolContext) -> str:
        line = {"key": context.idempotency_key, "pid": os.getpid(), "order": order_id, "item": item, "amount": amount}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        if len(ledger_lines(self._path)) == self._hold_after:
            threading.Event().wait(60)
        return _receipt(line)

    def reconcile(self, idempotency_key: str) -> object:
        """Tell what became of a call whose answer was lost in a crash: the ledger itself knows."""
        for line in ledger_lines(self._path):
            if line["key"] == idempotency_key:
                return _receipt(line)
        return NOT_DONE


def ledger_lines(path: Path) -> list[dict]:
    """Read the ledger's whole lines."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _receipt(line: dict) -> str:
    return f"written: {line['item']}, {line['amount']:.2f}"

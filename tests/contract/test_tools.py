"""Tools of every kind keep the contract: functions, classes, and the tools of memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from jianmu.testing.tools import ToolContract
from jianmu.tools import Tool, ToolContext, ToolSet, tool

if TYPE_CHECKING:
    from pathlib import Path


class Address(BaseModel):
    street: str
    number: int = 1


@tool(idempotent=True)
def label(
    to: Address,
    lines: Annotated[int, Field(ge=1, le=9)] = 3,
    style: Literal["plain", "bold"] = "plain",
    tags: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Print an address label.

    Args:
        to: where it goes.
        lines: how many lines.
    """
    return {"text": f"{to.street} {to.number}", "lines": lines, "style": style, "tags": sorted(tags)}


@tool(effect="write", requires_approval=lambda arguments: arguments["amount"] > 100, timeout=10)
async def pay(amount: float, to: str | None = None, *, context: ToolContext) -> str:
    """Pay someone.

    :param amount: in euros.
    """
    await asyncio.sleep(0)
    return f"paid {amount} to {to} ({context.call_id})"


class CountWords(Tool):
    name = "count_words"
    description = "Count the words of a text."
    input_schema = {  # noqa: RUF012
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "the text"},
            "least": {"type": "integer", "minimum": 1, "description": "leave out rarer words"},
        },
        "required": ["text"],
    }
    output_schema = {"type": "object", "additionalProperties": {"type": "integer"}}  # noqa: RUF012
    idempotent = True

    def run(self, text: str, least: int = 1) -> dict[str, int]:
        return {word: count for word, count in Counter(text.split()).items() if count >= least}


class TestFunction(ToolContract):
    def make(self) -> Tool:
        return label

    def examples(self) -> list[dict[str, Any]]:
        return [{"to": {"street": "长安街"}}, {"to": {"street": "A", "number": 2}, "lines": 9, "tags": ["b", "a"]}]


class TestAsyncFunctionWithContext(ToolContract):
    def make(self) -> Tool:
        return pay

    def examples(self) -> list[dict[str, Any]]:
        return [{"amount": 5}, {"amount": 500.5, "to": "Ada"}]


class TestClass(ToolContract):
    def make(self) -> Tool:
        return CountWords()

    def examples(self) -> list[dict[str, Any]]:
        return [{"text": "to be or not to be"}, {"text": "to be or not to be", "least": 2}]


class TestRenamed(TestFunction):
    def make(self) -> Tool:
        return ToolSet([label]).prefixed("shop_").get("shop_label")


class OfMemory(ToolContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def memory_tools(self) -> list[Tool]:
        from jianmu.memory import SimpleStore
        from jianmu.memory.tools import create_memory_tools

        return create_memory_tools(namespace=("agent",), long_term_memory=SimpleStore(self.folder / "store.json"))


class TestMemorySearch(OfMemory):
    """R38, R39."""

    def make(self) -> Tool:
        return self.memory_tools()[0]

    def examples(self) -> list[dict[str, Any]]:
        return [{"query": "用户喜欢什么"}, {"query": "tea", "k": 2, "namespace": ["drinks"]}]


class TestMemoryAdd(OfMemory):
    """R38, R40."""

    def make(self) -> Tool:
        return self.memory_tools()[1]

    def examples(self) -> list[dict[str, Any]]:
        return [
            {"content": "The user likes tea."},
            {"content": "用户喜欢喝茶", "key": "drink", "metadata": {"type": "taste"}, "namespace": ["drinks"]},
        ]

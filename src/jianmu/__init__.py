"""Jianmu: the memory system, and the runtime it lives in, for LLM agents that run as behaviour trees.

The names below are loaded when they are first used, so that ``import jianmu`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jianmu.events import RuntimeEventBus
    from jianmu.memory.context import ContextBuilder
    from jianmu.messages import Message, ToolCall
    from jianmu.runtime import ReactiveRunner
    from jianmu.state import StateManager
    from jianmu.tools import Tool, ToolSet, tool

__version__ = "0.1.0"

__all__ = [
    "ContextBuilder",
    "Message",
    "ReactiveRunner",
    "RuntimeEventBus",
    "StateManager",
    "Tool",
    "ToolCall",
    "ToolSet",
    "tool",
]

_HOMES = {
    "ContextBuilder": "jianmu.memory.context",
    "Message": "jianmu.messages",
    "ReactiveRunner": "jianmu.runtime",
    "RuntimeEventBus": "jianmu.events",
    "StateManager": "jianmu.state",
    "Tool": "jianmu.tools",
    "ToolCall": "jianmu.messages",
    "ToolSet": "jianmu.tools",
    "tool": "jianmu.tools",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'jianmu' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])

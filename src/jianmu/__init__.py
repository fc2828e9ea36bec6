"""Jianmu: the memory system, and the runtime it lives in, for LLM agents that run as behaviour trees.

The names below are loaded when they are first used, so that ``import jianmu`` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jianmu._lazy import lazy_face

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

__getattr__, __dir__ = lazy_face(__name__, _HOMES)

"""Summaries: what takes the place of the part of a conversation that no longer fits.

A summary is a message that says how many messages of the history it covers. It is appended to the history like any
other message, so nothing stored is lost and a reducer that appends is all it needs; the prompt then starts with the
summary and goes on after the part it covers.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from jianmu.messages import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

_log = logging.getLogger("jianmu.context")
_COVERS = "summary_covers"

SummaryHook: TypeAlias = Callable[[list[Message]], str | Awaitable[str]]
"""Turns messages into a summary; async on the loop, sync in a thread. An earlier summary comes first among them."""


def make_summary(text: str, covers: int) -> Message:
    """Make a summary message.

    Args:
        text: the summary.
        covers: how many messages, from the first of the history, it stands for.
    """
    return Message.user(f"[Summary of the conversation so far]\n{text}", metadata={_COVERS: covers})


def summary_covers(message: Message) -> int | None:
    """Return how many messages a summary stands for; None when the message is no summary."""
    covers = message.metadata.get(_COVERS)
    return covers if isinstance(covers, int) else None


def latest_summary(history: Sequence[Message]) -> tuple[Message | None, int]:
    """Return the latest summary in a history and how many messages it covers; (None, 0) without one."""
    for message in reversed(history):
        if message.metadata and (covers := summary_covers(message)) is not None:
            return message, covers
    return None, 0


class Summariser:
    """Calls a summary hook, and stops calling one that keeps failing.

    Args:
        hook: makes the summary.
        max_failures: after this many failures in a row the hook is left alone until `reset`.
    """

    def __init__(self, hook: SummaryHook, max_failures: int = 3) -> None:
        self._hook = hook
        self._max_failures = max_failures
        self.failures = 0

    @property
    def ready(self) -> bool:
        """Whether the hook would be called."""
        return self.failures < self._max_failures

    def reset(self) -> None:
        """Trust the hook again."""
        self.failures = 0

    async def summarise(self, messages: list[Message]) -> str | None:
        """Return a summary, or None when the hook failed: it raised, or gave no text."""
        try:
            text = await self._made(messages)
        except Exception:
            _log.warning("the summary hook failed; the oldest messages are left out instead", exc_info=True)
            text = ""
        self.failures = 0 if text else self.failures + 1
        return text or None

    async def _made(self, messages: list[Message]) -> str:
        if inspect.iscoroutinefunction(self._hook):
            return await self._hook(messages)
        made = await asyncio.to_thread(self._hook, messages)
        return await made if inspect.isawaitable(made) else made

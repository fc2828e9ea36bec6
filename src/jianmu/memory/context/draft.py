"""The parts of one prompt: measured, chosen, put in order. Nothing here waits or calls out."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from jianmu.errors import ContextOverBudgetError
from jianmu.memory.context.groups import Group, flatten, from_turn_start, group_messages
from jianmu.memory.context.ladder import Fitted, Ladder
from jianmu.memory.context.providers import Segment, Stability
from jianmu.memory.context.summary import latest_summary, make_summary, summary_covers
from jianmu.messages import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pydantic import JsonValue

_SUMMARY_PRIORITY = 1_000
"""A summary stands for much of the history: other optional parts are left out before it."""


@dataclass(frozen=True)
class Conversation:
    """A history, taken apart.

    Attributes:
        lead: the system messages it begins with.
        summary: the latest summary in it, or None.
        groups: what the summary does not cover, mended.
    """

    lead: list[Message]
    summary: Message | None
    groups: list[Group]

    @classmethod
    def of(cls, history: Sequence[Message], pending: Iterable[str] = ()) -> Conversation:
        """Take a history apart; ``pending`` as for `group_messages`."""
        summary, covers = latest_summary(history)
        groups = group_messages(history, pending)
        if summary is not None:
            groups = [group for group in groups if not _is_summary(group)]
        lead = list(takewhile(lambda group: group.role == "system", groups))
        return cls(flatten(lead), summary, _after(groups[len(lead) :], covers))


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The parts of one prompt.

    Attributes:
        segments: all parts but the history.
        groups: the history.
        tools: the tokens of the tools.
        size: the tokens of a message.
        clear: the short form of a tool result.
        keep_results: see `Ladder`.
        low_water: see `Ladder`.
    """

    segments: list[Segment]
    groups: list[Group]
    tools: int
    size: Callable[[Message], int]
    clear: Callable[[Message], Message]
    keep_results: int
    low_water: float

    def fit(self, available: int, *, steady: bool = True) -> Prompt:
        """Choose what goes into the prompt.

        Args:
            available: tokens for all of it.
            steady: see `Ladder.fit`.

        Raises:
            ContextOverBudgetError: the parts that must be there do not fit.
        """
        ladder = Ladder(
            self.groups, size=self.size, clear=self.clear, keep_results=self.keep_results, low_water=self.low_water
        )
        segments = self._chosen(available - self.tools - ladder.minimum, ladder.minimum, available)
        room = available - self.tools - self._tokens(segments)
        return Prompt(draft=self, segments=segments, history=ladder.fit(room, steady=steady))

    def with_summary(self, text: str, prompt: Prompt) -> Draft:
        """Return the draft with a summary in the place of what a prompt left out."""
        last = prompt.history.dropped[-1]
        covers = next(group.index for group in prompt.history.groups if group.index > last.index)
        segments = [segment for segment in self.segments if segment.name != "summary"]
        return replace(
            self,
            segments=[*segments, summary_segment(make_summary(text, covers))],
            groups=_after(self.groups, covers),
        )

    def _chosen(self, room: int, minimum: int, available: int) -> list[Segment]:
        """Leave out optional segments, the lowest priority first, until the others fit into the room."""
        chosen = list(self.segments)
        while self._tokens(chosen) > room:
            optional = [segment for segment in chosen if segment.priority is not None]
            if not optional:
                raise self._over_budget(chosen, minimum, available)
            chosen.remove(min(optional, key=lambda segment: segment.priority or 0))
        return chosen

    def _over_budget(self, segments: list[Segment], minimum: int, available: int) -> ContextOverBudgetError:
        parts = {"tools": self.tools, **{segment.name: self._tokens([segment]) for segment in segments}}
        parts["last user's message and newest group"] = minimum
        needed = ", ".join(f"{name} {tokens}" for name, tokens in parts.items() if tokens)
        return ContextOverBudgetError(
            f"the smallest prompt takes {sum(parts.values())} tokens ({needed}), the budget leaves {available}; "
            "raise its limit, lower its reserve, offer fewer tools, or shorten the system prompt"
        )

    def _tokens(self, segments: Iterable[Segment]) -> int:
        return sum(self.size(message) for segment in segments for message in segment.messages)


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """What was chosen.

    Attributes:
        draft: what it was chosen from.
        segments: the segments that stay.
        history: the groups that stay.
    """

    draft: Draft
    segments: list[Segment]
    history: Fitted

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages, in the order in which they stay the same."""
        before = [segment for segment in self.segments if segment.stability is not Stability.VOLATILE]
        opening = [message for segment in sorted(before, key=_stability) for message in segment.messages]
        system = [message for message in opening if message.role == "system"]
        others = [message for message in opening if message.role != "system"]
        after = [
            message
            for segment in self.segments
            if segment.stability is Stability.VOLATILE
            for message in segment.messages
        ]
        return (*_joined(system), *others, *flatten(self.history.groups), *after)

    @property
    def tokens(self) -> dict[str, int]:
        """Counted tokens by part."""
        parts = {"tools": self.draft.tools, "history": self.history.tokens}
        for segment in self.segments:
            parts[segment.name] = parts.get(segment.name, 0) + sum(map(self.draft.size, segment.messages))
        return parts


def summary_segment(message: Message) -> Segment:
    """Return the segment of a summary: before the history, left out last."""
    return Segment(name="summary", messages=(message,), stability=Stability.SESSION, priority=_SUMMARY_PRIORITY)


def _is_summary(group: Group) -> bool:
    return summary_covers(group.messages[0]) is not None


def _after(groups: list[Group], covers: int) -> list[Group]:
    """Return the groups that a summary does not cover, led by the user's message of their turn."""
    return from_turn_start(groups, bisect_left(groups, covers, key=lambda group: group.index))


def _stability(segment: Segment) -> Stability:
    return segment.stability


def _joined(messages: list[Message]) -> list[Message]:
    """Join system messages into one, as models that take only one ask for."""
    if len(messages) < 2:
        return messages
    if all(isinstance(message.content, str) for message in messages):
        return [Message.system("\n\n".join(message.text for message in messages))]
    return [Message.system([block for message in messages for block in _blocks(message)])]


def _blocks(message: Message) -> list[dict[str, JsonValue]]:
    return [{"type": "text", "text": message.content}] if isinstance(message.content, str) else message.content

"""Groups: the smallest parts a conversation can be cut into.

An assistant's message with tool calls and the results of these calls belong together: providers refuse a call without a
result and a result without its call. Such a group is kept or dropped as a whole; any other message is a group of its
own. Everything that shortens a conversation works on groups, so that it cannot tear one apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from jianmu.errors import ContextError
from jianmu.tools.results import error_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jianmu.messages import Message, Role, ToolCall

    _Results: TypeAlias = list[Message | None]


@dataclass(frozen=True, slots=True)
class Group:
    """Messages that stay or go together.

    Attributes:
        messages: one message; or an assistant's message with tool calls and their results in the order of the calls.
        index: where the first message stands in the history.
    """

    messages: tuple[Message, ...]
    index: int

    @property
    def role(self) -> Role:
        """Who speaks; ``"assistant"`` for an assistant's message with its results."""
        return self.messages[0].role

    @property
    def results(self) -> tuple[Message, ...]:
        """The tool results in it."""
        return self.messages[1:]

    def check(self) -> None:
        """Check that the messages do belong together.

        Raises:
            ContextError: they do not.
        """
        first, *results = self.messages or (None,)
        if first is None or first.role == "tool" or any(message.role != "tool" for message in results):
            raise ContextError(f"group {self.index}: a group is one message, or a message with calls and their results")
        if Counter(result.tool_call_id or "" for result in results) - Counter(call.id for call in first.tool_calls):
            raise ContextError(f"group {self.index}: it holds a result that answers none of its calls")

    def with_results_cleared(self) -> Group:
        """Return the group with a short notice in the place of each result that is longer than the notice."""
        return self.with_results(cleared_result)

    def with_results(self, change: Callable[[Message], Message]) -> Group:
        """Return the group with each result changed; the group itself when none is."""
        results = tuple(map(change, self.results))
        unchanged = all(new is old for new, old in zip(results, self.results, strict=True))
        return self if unchanged else replace(self, messages=(self.messages[0], *results))


def group_messages(messages: Sequence[Message], pending: Iterable[str] = ()) -> list[Group]:
    """Cut a history into groups, and mend what is broken in it. The history itself is not changed.

    A result belongs to the latest call before it that has its id and no result yet; ids need not be unique for ever. A
    call without a result gets one that says it was interrupted. A result without a call is left out, and so is a second
    result of one call.

    Args:
        messages: the history.
        pending: ids of calls that wait for an approval: the last unanswered call of each id is left without a result.
    """
    groups: list[Group] = []
    torn = _TornExchanges()
    done = 0
    for index, message in enumerate(messages):
        if index < done:
            continue
        if message.role == "tool":
            torn.answer(message)
        elif not message.tool_calls or message.role != "assistant":
            groups.append(Group((message,), index))
        elif (results := _following_results(messages, index)) is not None:
            groups.append(Group((message, *results), index))
            done = index + 1 + len(results)
        else:
            torn.ask(message, index, len(groups))
            groups.append(Group((message,), index))
    for position, group in torn.mended(Counter(pending)):
        groups[position] = group
    return groups


def repair(messages: Sequence[Message], pending: Iterable[str] = ()) -> list[Message]:
    """Return a history that every provider takes: each call followed by its result, no result alone.

    See `group_messages` for the rules. Repairing twice is repairing once.
    """
    return flatten(group_messages(messages, pending))


def flatten(groups: Iterable[Group]) -> list[Message]:
    """Return the messages of groups, in order."""
    return [message for group in groups for message in group.messages]


def from_turn_start(groups: Sequence[Group], start: int) -> list[Group]:
    """Return ``groups[start:]``, led by the user's message that opened the turn in which ``start`` falls.

    That way a shortened conversation begins with a user's message, as some providers ask, and never loses the last one.
    """
    opener = next((i for i in range(min(start, len(groups) - 1), -1, -1) if groups[i].role == "user"), start)
    return [*([groups[opener]] if opener < start else []), *groups[start:]]


def _following_results(messages: Sequence[Message], index: int) -> Sequence[Message] | None:
    """Return the results of a message's calls if they follow it at once and in order, as they nearly always do."""
    calls = messages[index].tool_calls
    following = messages[index + 1 : index + 1 + len(calls)]
    found = [(message.role, message.tool_call_id) for message in following]
    return following if found == [("tool", call.id) for call in calls] else None


class _TornExchanges:
    """Calls whose results are missing or elsewhere."""

    def __init__(self) -> None:
        self._asked: list[tuple[Message, int, int, _Results]] = []
        self._waiting: dict[str, list[tuple[_Results, int]]] = {}

    def ask(self, message: Message, index: int, position: int) -> None:
        """Take a message with calls: ``index`` in the history, ``position`` among the groups."""
        results: _Results = [None for _ in message.tool_calls]
        self._asked.append((message, index, position, results))
        for number, call in reversed(list(enumerate(message.tool_calls))):
            self._waiting.setdefault(call.id, []).append((results, number))

    def answer(self, result: Message) -> None:
        """Give a result to the latest call that waits for it, if any does."""
        if waiting := self._waiting.get(result.tool_call_id or ""):
            results, number = waiting.pop()
            results[number] = result

    def mended(self, pending: Counter[str]) -> Iterator[tuple[int, Group]]:
        """Give position and group of each message; the last calls go first, so that they are the pending ones."""
        for message, index, position, results in reversed(self._asked):
            for number, call in reversed(list(enumerate(message.tool_calls))):
                if results[number] is None and not _take(pending, call.id):
                    results[number] = _interrupted(call)
            yield position, Group((message, *filter(None, results)), index)


def _take(pending: Counter[str], call_id: str) -> bool:
    if pending[call_id] <= 0:
        return False
    pending[call_id] -= 1
    return True


def _interrupted(call: ToolCall) -> Message:
    return error_result(call, "interrupted", "the call was interrupted; whether it had an effect is not known")


def cleared_result(result: Message) -> Message:
    """Return a tool result with a short notice in the place of its content, unless that would make it longer."""
    notice = f"[result cleared to save space: {len(result.text)} characters]"
    is_short = isinstance(result.content, str) and len(result.content) <= len(notice)
    if is_short or result.metadata.get("cleared"):
        return result
    return result.model_copy(update={"content": notice, "metadata": {**result.metadata, "cleared": True}})

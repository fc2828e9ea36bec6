"""What every backend does alike: turn inputs into text, results into items, items into text for a model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jianmu.messages import Message
from jianmu.namespaces import validate

if TYPE_CHECKING:
    from jianmu.memory.long_term.protocol import (
        LongTermMemoryInput,
        LongTermMemoryRecordResult,
        LongTermMemoryRetrieved,
        MemoryItem,
    )
    from jianmu.namespaces import Namespace


def text_of(inputs: LongTermMemoryInput) -> str:
    r"""Write what is to be recorded as one text.

    Text and a single message give their text; of several messages each gives a line ``role: text``. Messages without
    text, such as mere tool calls, are left out.

    Raises:
        ValueError: nothing is left.
        TypeError: the inputs are something else.

    Example:
        >>> text_of([Message.user("I like tea"), Message.assistant("Noted.")])
        'user: I like tea\nassistant: Noted.'
    """
    text = _joined(inputs)
    if not text.strip():
        raise ValueError("there is no text to record: give a non-empty text or messages that have text")
    return text


def _joined(inputs: Any) -> str:
    if isinstance(inputs, str):
        return inputs
    messages: list[Any] = [inputs] if isinstance(inputs, Message) else list(inputs)
    for message in messages:
        if not isinstance(message, Message):
            raise TypeError(f"record takes text, a Message or a sequence of Messages, not {type(message).__name__}")
    spoken = [message for message in messages if message.text.strip()]
    if len(spoken) == 1:
        return spoken[0].text
    return "\n".join(f"{message.role}: {message.text}" for message in spoken)


def place_of(namespace: Namespace | None) -> Namespace:
    """Return the namespace, checked; None is the root.

    Raises:
        NamespaceError: it is not a sequence of non-empty labels.
    """
    return () if namespace is None else validate(namespace)


def check_limit(limit: int) -> int:
    """Return the limit, or raise ValueError unless it is 1 or more."""
    if limit < 1:
        raise ValueError(f"limit is {limit}: ask for 1 or more results")
    return limit


def record_result(
    items: list[MemoryItem], *, key: str | None = None, event_id: str | None = None
) -> LongTermMemoryRecordResult:
    """Report what was stored; an ``event_id`` without items means that the backend is still at work."""
    return {
        "id": items[0]["id"] if items else None,
        "key": key,
        "status": "stored" if items else "pending" if event_id else "nothing",
        "results": items,
        "event_id": event_id,
    }


def format_items(retrieved: LongTermMemoryRetrieved) -> str:
    """Write memories as numbered lines with id, score and metadata.

    Example:
        >>> format_items([{"id": "m1", "content": "likes tea", "metadata": {"type": "taste"}, "score": 0.5}])
        '1. likes tea (id: m1, score: 0.500, metadata: {"type": "taste"})'
    """
    return "\n".join(f"{number}. {item['content']}{_details(item)}" for number, item in enumerate(retrieved, 1))


def _details(item: MemoryItem) -> str:
    score, metadata = item.get("score"), item.get("metadata")
    details = {
        "id": item.get("id"),
        "score": None if score is None else f"{score:.3f}",
        "metadata": json.dumps(metadata, ensure_ascii=False, default=str) if metadata else None,
    }
    known = ", ".join(f"{name}: {value}" for name, value in details.items() if value is not None)
    return f" ({known})" if known else ""

"""What a knowledge base holds and what it gives back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any


def _content_id(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True)
class Document:
    """A text that can be found.

    Attributes:
        text: what is searched and given back.
        id: its name; made from the text unless given, so that the same text is one document.
        metadata: anything to keep beside it.
    """

    text: str
    id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", _content_id(self.text))


@dataclass(frozen=True)
class Hit:
    """A document that was found.

    Attributes:
        document: the document.
        score: how well it fits; higher is better. Compare it only within one answer.
    """

    document: Document
    score: float

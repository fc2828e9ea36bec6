"""Looking again at what was found, with more care than a search over everything can afford."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from jianmu.rag.document import Hit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@runtime_checkable
class Reranker(Protocol):
    """Puts hits into a better order."""

    def rerank(self, query: str, hits: Sequence[Hit], *, limit: int) -> list[Hit]:
        """Return at most ``limit`` of the hits, the best first, with its own scores."""
        ...


class CallableReranker:
    """A reranker made from a function that scores one text for a query.

    Args:
        score: takes the query and a text; higher is better.

    Example:
        >>> from jianmu.rag import Document
        >>> shortest = CallableReranker(lambda query, text: -len(text))
        >>> hits = [Hit(Document("a long one"), 1.0), Hit(Document("short"), 0.5)]
        >>> [hit.document.text for hit in shortest.rerank("", hits, limit=1)]
        ['short']
    """

    def __init__(self, score: Callable[[str, str], float]) -> None:
        self._score = score

    def rerank(self, query: str, hits: Sequence[Hit], *, limit: int) -> list[Hit]:
        """Score every hit anew; equals keep their order."""
        scored = [Hit(hit.document, float(self._score(query, hit.document.text))) for hit in hits]
        return heapq.nlargest(limit, scored, key=lambda hit: hit.score)

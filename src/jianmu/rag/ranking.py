"""Scoring and ordering: BM25, cosine similarity, and joining the scores of several searches."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from jianmu.text import keywords, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jianmu.rag.embedder import Vector


class BM25:
    """An index that scores texts by the words they share with a query, rare words counting more (Okapi BM25).

    Args:
        k1: how fast repetition of a word stops to count.
        b: how much long texts are held back, 0 to 1.

    Example:
        >>> index = BM25()
        >>> index.add("a", "green tea from Hangzhou")
        >>> index.add("b", "black coffee")
        >>> list(index.scores("which tea?"))
        ['a']
    """

    def __init__(self, k1: float = 1.5, b: float = 0.75) -> None:
        self._k1 = k1
        self._b = b
        self._counts: dict[str, Counter[str]] = {}
        self._postings: defaultdict[str, set[str]] = defaultdict(set)
        self._total_length = 0

    def add(self, text_id: str, text: str) -> None:
        """Put a text into the index; one with the same id is replaced."""
        self.remove(text_id)
        counts = Counter(tokenize(text))
        self._counts[text_id] = counts
        self._total_length += counts.total()
        for term in counts:
            self._postings[term].add(text_id)

    def remove(self, text_id: str) -> bool:
        """Take a text out of the index; tells whether it was there."""
        counts = self._counts.pop(text_id, None)
        if counts is None:
            return False
        self._total_length -= counts.total()
        for term in counts:
            self._postings[term].discard(text_id)
            if not self._postings[term]:
                del self._postings[term]
        return True

    def scores(self, query: str) -> dict[str, float]:
        """Score the texts that share a word with the query; all scores are above 0, the others have none."""
        scores: defaultdict[str, float] = defaultdict(float)
        for term in set(keywords(query)):
            holders = self._postings.get(term, ())
            for text_id in holders:
                scores[text_id] += self._rarity(len(holders)) * self._weight(self._counts[text_id], term)
        return dict(scores)

    def _rarity(self, holders: int) -> float:
        return math.log(1 + (len(self._counts) - holders + 0.5) / (holders + 0.5))

    def _weight(self, counts: Counter[str], term: str) -> float:
        average = self._total_length / len(self._counts)
        held_back = self._k1 * (1 - self._b + self._b * counts.total() / average)
        return counts[term] * (self._k1 + 1) / (counts[term] + held_back)


def cosine(left: Vector, right: Vector) -> float:
    """Return the cosine of the angle between two vectors; 0 when one of them has no length.

    Example:
        >>> cosine([1.0, 0.0], [0.5, 0.5])
        0.7071067811865475
    """
    product = sum(a * b for a, b in zip(left, right, strict=True))
    lengths = math.sqrt(sum(a * a for a in left) * sum(b * b for b in right))
    return float(product / lengths) if lengths else 0.0


def fuse(searches: Sequence[Mapping[str, float]], weights: Sequence[float] | None = None) -> dict[str, float]:
    """Join the scores of several searches into one.

    Each search is scaled so that its best score is 1; what a search did not find counts 0 there. The result is the
    weighted mean, so it lies between 0 and 1.

    Args:
        searches: for each search its scores by id, above 0.
        weights: how much each search counts; equal when omitted.

    Example:
        >>> fuse([{"a": 8.0, "b": 4.0}, {"b": 0.9}])
        {'a': 0.5, 'b': 0.75}
    """
    shares = weights or [1.0] * len(searches)
    fused: defaultdict[str, float] = defaultdict(float)
    for scores, share in zip(searches, shares, strict=True):
        best = max(scores.values(), default=0.0)
        for text_id, score in scores.items():
            fused[text_id] += share * score / best / sum(shares)
    return dict(fused)


def top(scores: Mapping[str, float], limit: int) -> list[tuple[str, float]]:
    """Return the best ids with their scores, the best first; equals in the order they came."""
    ranked: Iterable[tuple[str, float]] = scores.items()
    return heapq.nlargest(limit, ranked, key=lambda scored: scored[1])

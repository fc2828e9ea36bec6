"""KnowledgeBase: documents in, answers out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jianmu.rag.document import Document, Hit
from jianmu.rag.retriever import HybridRetriever, KeywordRetriever, Retriever, VectorRetriever

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jianmu.rag.embedder import Embedder
    from jianmu.rag.reranker import Reranker


class KnowledgeBase:
    """A collection of documents that is searched by words and, with an embedder, by meaning too.

    It lives in memory and is filled by one thread at a time.

    Args:
        embedder: makes it find by meaning as well.
        reranker: looks again at the best candidates.
        retriever: does the finding; made from the above unless given.
        candidates: how many candidates the reranker gets to see.

    Example:
        >>> base = KnowledgeBase()
        >>> ids = base.add(["Green tea is brewed at 80 degrees.", "绿茶产自杭州。"])
        >>> base.search("杭州的茶")[0].document.text
        '绿茶产自杭州。'
    """

    def __init__(
        self,
        *,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
        retriever: Retriever | None = None,
        candidates: int = 20,
    ) -> None:
        self._retriever = retriever or _retriever(embedder)
        self._reranker = reranker
        self._candidates = candidates
        self._documents: dict[str, Document] = {}

    def add(self, documents: Iterable[Document | str]) -> list[str]:
        """Take documents in; one with a known id replaces the old one.

        Args:
            documents: documents, or mere texts.

        Returns:
            Their ids, in order.
        """
        batch = [Document(document) if isinstance(document, str) else document for document in documents]
        self._retriever.add(batch)
        self._documents.update({document.id: document for document in batch})
        return [document.id for document in batch]

    def get(self, document_id: str) -> Document | None:
        """Return a document by its id, or None."""
        return self._documents.get(document_id)

    def remove(self, document_id: str) -> bool:
        """Take a document out; tells whether it was there."""
        self._retriever.remove(document_id)
        return self._documents.pop(document_id, None) is not None

    def search(self, query: str, *, limit: int = 5) -> list[Hit]:
        """Return at most ``limit`` documents that fit the query, the best first; none when nothing fits.

        Raises:
            ValueError: ``limit`` is below 1.
        """
        if limit < 1:
            raise ValueError(f"limit is {limit}: ask for 1 or more results")
        if self._reranker is None:
            return self._retriever.retrieve(query, limit=limit)
        candidates = self._retriever.retrieve(query, limit=max(limit, self._candidates))
        return self._reranker.rerank(query, candidates, limit=limit)

    def __len__(self) -> int:
        return len(self._documents)


def _retriever(embedder: Embedder | None) -> Retriever:
    words = KeywordRetriever()
    return words if embedder is None else HybridRetriever([words, VectorRetriever(embedder)])

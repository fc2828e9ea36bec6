"""Finding documents: by words, by meaning, or by both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from jianmu.rag.document import Document, Hit
from jianmu.rag.embedder import unit
from jianmu.rag.ranking import BM25, fuse, top

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jianmu.rag.embedder import Embedder


@runtime_checkable
class Retriever(Protocol):
    """Holds documents and finds those that fit a query."""

    def add(self, documents: Iterable[Document]) -> None:
        """Take documents in; one with a known id replaces the old one."""
        ...

    def remove(self, document_id: str) -> bool:
        """Take a document out; tells whether it was there."""
        ...

    def retrieve(self, query: str, *, limit: int = 10) -> list[Hit]:
        """Return at most ``limit`` documents, the best first, and none that does not fit at all."""
        ...


class KeywordRetriever:
    """Finds documents by the words they share with the query (BM25)."""

    def __init__(self) -> None:
        self._documents: dict[str, Document] = {}
        self._index = BM25()

    def add(self, documents: Iterable[Document]) -> None:
        """Take documents in; one with a known id replaces the old one."""
        for document in documents:
            self._documents[document.id] = document
            self._index.add(document.id, document.text)

    def remove(self, document_id: str) -> bool:
        """Take a document out; tells whether it was there."""
        self._index.remove(document_id)
        return self._documents.pop(document_id, None) is not None

    def retrieve(self, query: str, *, limit: int = 10) -> list[Hit]:
        """Return the documents that share words with the query, the best first."""
        return [Hit(self._documents[name], score) for name, score in top(self._index.scores(query), limit)]


class VectorRetriever:
    """Finds documents by nearness of meaning.

    Args:
        embedder: makes the vectors; they are kept in memory and compared one by one, which is fit for some thousands.
        min_similarity: leave out documents whose cosine with the query is not above this.
    """

    def __init__(self, embedder: Embedder, *, min_similarity: float = 0.0) -> None:
        self.embedder = embedder
        self._min_similarity = min_similarity
        self._documents: dict[str, Document] = {}
        self._vectors: dict[str, list[float]] = {}

    def add(self, documents: Iterable[Document]) -> None:
        """Take documents in; one with a known id replaces the old one."""
        batch = list(documents)
        vectors = self.embedder.embed_documents([document.text for document in batch])
        for document, vector in zip(batch, vectors, strict=True):
            self._documents[document.id] = document
            self._vectors[document.id] = unit(vector)

    def remove(self, document_id: str) -> bool:
        """Take a document out; tells whether it was there."""
        self._vectors.pop(document_id, None)
        return self._documents.pop(document_id, None) is not None

    def retrieve(self, query: str, *, limit: int = 10) -> list[Hit]:
        """Return the documents nearest to the query, with the cosine as score; none for an empty query."""
        if not query.strip():
            return []
        wanted = unit(self.embedder.embed_query(query))
        near = {name: sum(map(float.__mul__, wanted, vector)) for name, vector in self._vectors.items()}
        fitting = {name: similarity for name, similarity in near.items() if similarity > self._min_similarity}
        return [Hit(self._documents[name], score) for name, score in top(fitting, limit)]


class HybridRetriever:
    """Asks several retrievers and joins their scores.

    Args:
        retrievers: who is asked; all hold the same documents.
        weights: how much each counts; equal when omitted.
        depth: how many results each is asked for, as a multiple of the limit.
    """

    def __init__(
        self, retrievers: Sequence[Retriever], *, weights: Sequence[float] | None = None, depth: int = 4
    ) -> None:
        self._retrievers = list(retrievers)
        self._weights = weights
        self._depth = depth

    def add(self, documents: Iterable[Document]) -> None:
        """Give documents to every retriever."""
        batch = list(documents)
        for retriever in self._retrievers:
            retriever.add(batch)

    def remove(self, document_id: str) -> bool:
        """Take a document out of every retriever; tells whether it was there."""
        removed = [retriever.remove(document_id) for retriever in self._retrievers]
        return any(removed)

    def retrieve(self, query: str, *, limit: int = 10) -> list[Hit]:
        """Return the documents with the best joint score, between 0 and 1."""
        answers = [retriever.retrieve(query, limit=limit * self._depth) for retriever in self._retrievers]
        documents = {hit.document.id: hit.document for answer in answers for hit in answer}
        joint = fuse([{hit.document.id: hit.score for hit in answer} for answer in answers], self._weights)
        return [Hit(documents[name], score) for name, score in top(joint, limit)]

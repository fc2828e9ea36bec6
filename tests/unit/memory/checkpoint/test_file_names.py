"""File names of threads."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jianmu.memory.checkpoint.file.names import full_stem_of, is_cut, stem_of, thread_of
from jianmu.testing import HOSTILE_THREAD_IDS

# Letters that differ in case only, look-alikes, separators, and any other text, lone surrogates too.
TEXT = st.text(st.sampled_from("aAbB.%+-_/\\ :木樹éÉ\u0301İı0\x00\ud800🎉"), min_size=1) | st.text(
    st.characters(exclude_categories=()), min_size=1, max_size=300
)


def as_a_careless_file_system_sees_it(stem: str) -> str:
    return unicodedata.normalize("NFKD", stem).casefold()


@pytest.mark.parametrize(
    "thread_id",
    ["session-42", "t", "user_7.chat", "2026-05-01", "550e8400-e29b-41d4-a716-446655440000", "会话-42", "a.b"],
)
def test_ordinary_names_stay_as_they_are(thread_id: str) -> None:
    """R14."""
    assert stem_of(thread_id) == thread_id


@pytest.mark.parametrize(
    ("thread_id", "stem"),
    [
        ("Session-42", "Session-42+1"),
        ("../x", "%2e.%2fx"),
        ("..", "%2e."),
        ("/etc", "%2fetc"),
        ("con", "%63on"),
        ("NUL.txt", "%4eUL.txt+7"),
        ("console", "console"),
        ("a\x00b", "a%00b"),
        ("a.", "a."),
        ("a ", "a%20"),
        ("é", "%c3%a9"),
    ],
)
def test_other_names_stay_readable(thread_id: str, stem: str) -> None:
    """R14."""
    assert stem_of(thread_id) == stem


@given(TEXT)
@example("x" * 121)
@example("树" * 41)
@example("." * 300)
def test_a_name_is_safe_in_any_folder(thread_id: str) -> None:
    """R14: no separator, no device, no hidden or endless name, nothing a file system folds or decomposes."""
    stem = stem_of(thread_id)
    assert re.fullmatch(r"[a-zA-Z0-9._+%\-\u4e00-\u9fff]+", stem)
    assert not stem.startswith(".")
    assert len(f".{stem}.jsonl.draft".encode()) <= 143
    assert stem.split(".")[0].lower() not in {"con", "prn", "aux", "nul", "com1", "lpt1"}
    assert unicodedata.normalize("NFKD", stem) == stem


@given(TEXT)
def test_a_name_tells_its_thread(thread_id: str) -> None:
    """R14: a listing finds the ids again; what is cut says so, and its lines tell the rest."""
    assert thread_of(full_stem_of(thread_id)) == thread_id
    assert thread_of(stem_of(thread_id)) == (None if is_cut(stem_of(thread_id)) else thread_id)


@given(TEXT, TEXT)
@example("session", "Session")
@example("a+1", "A")
@example("%41", "A")
def test_two_threads_never_share_a_file(left: str, right: str) -> None:
    """R14: also where the file system ignores case and normalises text."""
    names = {as_a_careless_file_system_sees_it(stem_of(thread_id)) for thread_id in (left, right)}
    assert len(names) == len({left, right})


@given(TEXT)
def test_a_thread_never_shares_a_file_with_its_variants(thread_id: str) -> None:
    """R14: the names that are most alike."""
    variants = {thread_id, thread_id.lower(), thread_id.upper(), thread_id.swapcase(), stem_of(thread_id)}
    variants |= {thread_id + "+1", thread_id + " ", full_stem_of(thread_id)}
    assert len({as_a_careless_file_system_sees_it(stem_of(name)) for name in variants}) == len(variants)


def test_hostile_names_all_differ() -> None:
    """R14."""
    stems = {as_a_careless_file_system_sees_it(stem_of(thread_id)) for thread_id in HOSTILE_THREAD_IDS}
    assert len(stems) == len(set(HOSTILE_THREAD_IDS))


@pytest.mark.parametrize("stem", ["Notes", "a b", "%zz", "", "a%2F", "x++0", "%ff", "a+0", "a+", "+", "A+2", "%61"])
def test_a_name_that_was_not_made_here_is_no_thread(stem: str) -> None:
    assert thread_of(stem) is None

"""SimpleStore: what the file holds, how it is found, and what happens when things go wrong."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from jianmu.errors import LongTermMemoryError, SerializationError, StoreCorruptError
from jianmu.memory.long_term.simple_store import SimpleStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> SimpleStore:
    return SimpleStore(db_path=tmp_path / "store.json")


def on_disk(store: SimpleStore) -> dict[str, object]:
    return json.loads(store.db_path.read_text(encoding="utf-8"))


def contents(store: SimpleStore, query: str, *namespace: str) -> list[str]:
    return [item["content"] for item in store.retrieve(query, limit=50, namespace=namespace)]


def test_the_default_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """R33: without a path it is .outputs/jianmu/store.json, made by the first write and not before."""
    monkeypatch.chdir(tmp_path)
    store = SimpleStore()
    assert store.retrieve("tea") == []
    assert list(tmp_path.iterdir()) == []
    store.record("tea", key="k")
    assert (tmp_path / ".outputs" / "jianmu" / "store.json").is_file()


def test_a_namespace_is_nested_keys(store: SimpleStore) -> None:
    """R34: ("session", "prefs") is data["session"]["prefs"]; a record is its content and metadata."""
    store.record("用户喜欢 Python", namespace=("session", "prefs"), key="pref1", metadata={"type": "language"})
    record = {"content": "用户喜欢 Python", "metadata": {"type": "language"}}
    assert on_disk(store) == {"session": {"prefs": {"pref1": record}}}


@pytest.mark.parametrize("record_first", [True, False])
def test_a_key_that_is_also_a_namespace_is_kept_apart(store: SimpleStore, record_first: bool) -> None:
    """R34: a record named like a sub-namespace stands beside it, whichever came first."""
    steps = [
        lambda: store.record("tea outside", namespace=("session",), key="prefs"),
        lambda: store.record("tea inside", namespace=("session", "prefs"), key="content"),
    ]
    for step in steps if record_first else reversed(steps):
        step()
    assert contents(store, "tea", "session") == ["tea outside"]
    assert contents(store, "tea", "session", "prefs") == ["tea inside"]
    assert store.delete("prefs", namespace=("session",))
    assert contents(store, "tea", "session") == []
    assert contents(store, "tea", "session", "prefs") == ["tea inside"]


def test_names_of_a_record_are_names_like_any_other(store: SimpleStore) -> None:
    """R34: "content" and "metadata" may be keys and labels."""
    store.record("tea one", namespace=("content", "metadata"), key="content")
    store.record("tea two", namespace=("content",), key="metadata")
    store.record("tea three", key="content")
    assert contents(store, "tea", "content", "metadata") == ["tea one"]
    assert contents(store, "tea", "content") == ["tea two"]
    assert contents(store, "tea") == ["tea three"]


def test_the_same_key_replaces(store: SimpleStore) -> None:
    """R33: one key, one record: the last."""
    store.record("likes tea", key="drink", metadata={"old": 1})
    store.record("likes coffee", key="drink")
    assert on_disk(store) == {"drink": {"content": "likes coffee", "metadata": {}}}


@pytest.mark.parametrize("key", [None, ""])
def test_a_record_needs_a_key(store: SimpleStore, key: str | None) -> None:
    """R36: no key, no record."""
    with pytest.raises(ValueError, match="non-empty key"):
        store.record("tea", key=key)
    assert not store.db_path.exists()


def test_the_key_is_the_id(store: SimpleStore) -> None:
    """R36: id = key, in the result, in what is found, and for get."""
    assert store.record("tea", namespace=("a",), key="drink")["id"] == "drink"
    assert store.retrieve("tea", namespace=("a",))[0]["id"] == "drink"
    item = store.get("drink", namespace=("a",))
    assert item is not None
    assert item["content"] == "tea"
    assert store.get("drink") is None


def test_an_exact_substring_wins_alone(store: SimpleStore) -> None:
    """R35: records that contain the query come first, and others only when there are none."""
    store.record("Tea is served at five", key="words")
    store.record("serve the tea cold", key="exact")
    assert contents(store, "THE TEA") == ["serve the tea cold"]
    assert set(contents(store, "teas serving")) == {"Tea is served at five", "serve the tea cold"}


def test_more_shared_words_rank_higher(store: SimpleStore) -> None:
    """R35: the score is the share of the query's words that were found."""
    store.record("cities in China", key="one")
    store.record("the city of Shanghai has tea houses", key="three")
    store.record("a house", key="house")
    found = store.retrieve("house, cities, teas")
    assert [(item["id"], item["score"]) for item in found] == [("three", 1.0), ("house", 1 / 3), ("one", 1 / 3)]


def test_of_equals_the_newest_comes_first(store: SimpleStore) -> None:
    for key in ("a", "b", "c", "a"):
        store.record(f"tea {key}", key=key)
    assert [item["id"] for item in store.retrieve("tea")] == ["a", "c", "b"]


@pytest.mark.parametrize("query", ["beer", "啤酒", "z", "where is the beer", "!?"])
def test_nothing_matches_nothing_returned(store: SimpleStore, query: str) -> None:
    """R35: what shares no word with the query is not returned; a stop word is no match."""
    store.record("The user likes tea, which is green", key="en")
    store.record("用户喜欢喝绿茶", key="zh")
    assert contents(store, query) == []


@pytest.mark.parametrize("query", ["绿茶", "喝什么茶？用户喜欢什么", "绿", "用户 喜欢"])
def test_chinese_queries_find_chinese_records(store: SimpleStore, query: str) -> None:
    """R35: as a substring and by pairs of characters."""
    store.record("用户喜欢喝绿茶", key="zh")
    assert contents(store, query) == ["用户喜欢喝绿茶"]


def test_what_cannot_be_stored_is_named(store: SimpleStore) -> None:
    """R33: an error names the path in the metadata, and nothing is written."""
    store.record("tea", key="before")
    with pytest.raises(SerializationError, match=r"metadata\.a\[1\]"):
        store.record("tea", key="k", metadata={"a": [1, object()]})
    assert on_disk(store) == {"before": {"content": "tea", "metadata": {}}}


def test_lone_surrogates_survive(store: SimpleStore) -> None:
    store.record("tea \ud800", key="\udfff", metadata={"x": "\ud800"})
    assert SimpleStore(store.db_path).retrieve("tea")[0] == {
        "id": "\udfff",
        "content": "tea \ud800",
        "metadata": {"x": "\ud800"},
        "score": 1.0,
    }


@pytest.mark.parametrize(
    "damaged",
    [
        b"{",
        b'{"a": {"content": "tea", "metadata": {}}',
        b"\x00" * 40,
        b"[]",
        b'"tea"',
        b'{"a": 1}',
        b'{"a": {"b": []}}',
        b'{"a": {"content": "tea", "metadata": []}}',
        b'{"a": {"content": "\xff", "metadata": {}}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_an_error_that_never_overwrites_it(store: SimpleStore, damaged: bytes) -> None:
    """R33: every operation says so, and the bytes stay as they are."""
    store.db_path.write_bytes(damaged)
    for operation in (
        lambda: store.record("tea", key="k"),
        lambda: store.retrieve("tea"),
        lambda: store.delete("k"),
        lambda: store.get("k"),
    ):
        with pytest.raises(StoreCorruptError, match=r"store\.json"):
            operation()
    assert store.db_path.read_bytes() == damaged


def test_every_torn_file_is_refused_or_whole(store: SimpleStore) -> None:
    """R33: a file cut at any byte is never taken for a smaller store."""
    store.record("likes 茶", namespace=("a",), key="k", metadata={"n": 1})
    whole = store.db_path.read_bytes()
    for length in range(1, len(whole)):
        store.db_path.write_bytes(whole[:length])
        with pytest.raises(StoreCorruptError):
            store.record("coffee", key="other")


def test_an_empty_file_is_an_empty_store(store: SimpleStore) -> None:
    """R33: there is nothing in it to lose."""
    store.db_path.touch()
    assert store.retrieve("tea") == []
    store.record("tea", key="k")
    assert contents(store, "tea") == ["tea"]


def test_a_change_by_another_store_is_seen(store: SimpleStore) -> None:
    """R33: the file is read again when it changed."""
    other = SimpleStore(store.db_path)
    store.record("tea one", key="one")
    assert contents(other, "tea") == ["tea one"]
    other.record("tea two", key="two")
    assert contents(store, "tea") == ["tea two", "tea one"]
    store.db_path.unlink()
    assert contents(other, "tea") == []


_WRITER = """
import sys
from jianmu.memory.long_term.simple_store import SimpleStore
store = SimpleStore(sys.argv[1])
for number in range(20):
    store.record(f"tea {sys.argv[2]} {number}", namespace=("shared",), key=f"{sys.argv[2]}-{number}")
"""


def test_processes_that_share_a_file_lose_nothing(store: SimpleStore) -> None:
    """R33: three processes write one file at once; all their records are there."""
    command = [sys.executable, "-c", _WRITER, str(store.db_path)]
    writers = [subprocess.Popen([*command, name]) for name in "abc"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert len(store.retrieve("tea", limit=100, namespace=("shared",))) == 60


def test_a_write_that_fails_leaves_the_store_as_it_was(store: SimpleStore) -> None:
    """R33: on a full disk the old file stays, the error names it, no remains are left, and the next write works."""
    store.record("tea", key="old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (store.db_path.stat().st_size, hard))
    try:
        with pytest.raises(LongTermMemoryError, match=r"store\.json"):
            store.record("tea " * 100, key="new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert contents(store, "tea") == ["tea"]
    assert sorted(path.name for path in store.db_path.parent.iterdir()) == ["store.json", "store.json.lock"]
    store.record("more tea", key="new")
    assert contents(store, "tea") == ["more tea", "tea"]


def test_a_folder_in_the_place_of_the_file_is_a_clear_error(store: SimpleStore) -> None:
    store.db_path.mkdir()
    with pytest.raises(LongTermMemoryError, match=r"store\.json"):
        store.record("tea", key="k")


@pytest.mark.skipif(os.name != "posix", reason="file modes and links are those of POSIX")
def test_mode_and_link_of_the_file_stay(tmp_path: Path) -> None:
    """R33: replacing the content changes neither who may read it nor where it lies."""
    real = tmp_path / "real.json"
    real.write_text("{}", encoding="utf-8")
    real.chmod(0o640)
    link = tmp_path / "store.json"
    link.symlink_to(real)
    SimpleStore(link).record("tea", key="k")
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert "tea" in real.read_text(encoding="utf-8")


def test_a_limit_below_one_is_refused(store: SimpleStore) -> None:
    with pytest.raises(ValueError, match="limit is 0"):
        store.retrieve("tea", limit=0)

"""Namespaces never meet: not when encoded, not in any backend, whatever their labels are made of."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from jianmu.errors import NamespaceError
from jianmu.memory import Mem0LongTermMemory, MemoryService, SimpleStore
from jianmu.memory.long_term import keyless_mem0_config
from jianmu.namespaces import contains, decode, encode, nest, validate
from jianmu.rag import CallableEmbedder

if TYPE_CHECKING:
    from collections.abc import Iterator

# Pieces that tempt a backend to join, trim, split, fold or expand.
pieces = st.sampled_from(
    ["a", "b", "A", "/", "%", "%2F", "%25", "*", "_", ".", "..", " ", "\t", "用", "户", "🎉", "~", "é", "e\u0301"]
)
labels = st.lists(pieces, min_size=1, max_size=3).map("".join) | st.text(st.characters(), min_size=1, max_size=6)
namespaces = st.lists(labels, max_size=3).map(tuple)


@given(namespaces, namespaces)
def test_different_namespaces_are_encoded_differently(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    """R31: one text, one namespace."""
    assert (encode(one) == encode(other)) is (one == other)


@given(namespaces)
def test_an_encoded_namespace_reads_back(namespace: tuple[str, ...]) -> None:
    assert decode(encode(namespace)) == namespace


@given(namespaces)
def test_an_encoded_namespace_is_harmless(namespace: tuple[str, ...]) -> None:
    """R31: only letters, digits, "_.-%/" are left: no white space to trim, no wildcard to expand."""
    assert all(char.isascii() and (char.isalnum() or char in "_.-%/") for char in encode(namespace))


@given(st.lists(st.text("abcXYZ019_.-", min_size=1), min_size=1).map(tuple))
def test_ordinary_labels_stay_readable(namespace: tuple[str, ...]) -> None:
    """R32: ("agent", "thread") is exactly "agent/thread"."""
    assert encode(namespace) == "/".join(namespace)


@given(namespaces, namespaces)
def test_nesting_never_leaves_the_base(base: tuple[str, ...], below: tuple[str, ...]) -> None:
    """R43: a sub-path stays below, and two bases that differ stay apart."""
    assert contains(base, nest(base, below))
    assert nest(base, below)[len(base) :] == below


@pytest.mark.parametrize("wrong", ["agent", b"bytes", ("a", ""), ("a", 1), ("a", None), 7, {"a"}, {"a": 1}])
def test_what_is_no_namespace_is_refused(wrong: object) -> None:
    """R31: a bare string, an empty label or another type is an error, never a guess."""
    with pytest.raises(NamespaceError):
        validate(wrong)


@given(namespaces, namespaces)
@settings(max_examples=50)
def test_simple_store_keeps_namespaces_apart(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    """R31: also when one is the other's parent, or a key of one is a label of the other."""
    assume(one != other)
    with tempfile.TemporaryDirectory() as folder:
        store = SimpleStore(Path(folder) / "store.json")
        for place, text in ((one, "tea one"), (other, "tea other")):
            for key in ("tea", *one[-1:], *other[-1:]):
                store.record(text, namespace=place, key=key)
        assert {item["content"] for item in store.retrieve("tea", limit=9, namespace=one)} == {"tea one"}
        assert {item["content"] for item in store.retrieve("tea", limit=9, namespace=other)} == {"tea other"}


@pytest.fixture(scope="module")
def mem0(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mem0LongTermMemory]:
    """Mem0 with Chroma on disk; all texts are alike to its embedder, so only the namespace can tell them apart."""
    alike = CallableEmbedder(lambda texts: [[1.0, 0.0]] * len(texts), dimension=2, name="alike")
    config = keyless_mem0_config(tmp_path_factory.mktemp("mem0"), alike)
    with Mem0LongTermMemory(config=config, infer=False) as memory:
        yield memory


@given(namespaces, namespaces)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_mem0_keeps_namespaces_apart(mem0: Mem0LongTermMemory, one: tuple[str, ...], other: tuple[str, ...]) -> None:
    """R31: search, get and delete in one namespace never touch another."""
    assume(one != other)
    with_one, with_other = MemoryService(mem0, one), MemoryService(mem0, other)
    stored = with_one.add(f"tea of {one!r}", metadata={"place": list(one)})
    assert stored["id"] is not None
    assert stored["id"] not in {item["id"] for item in with_other.search("tea", limit=50)}
    assert mem0.get(stored["id"], namespace=other) is None
    assert with_other.delete(stored["id"]) is False
    assert {tuple(item["metadata"]["place"]) for item in with_one.search("tea", limit=50)} == {one}
    assert with_one.delete(stored["id"]) is True

"""Mem0LongTermMemory: what it says to each kind of Mem0, and how it reads the answers."""

from __future__ import annotations

import math
import sys
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jianmu.errors import ConfigurationError, SerializationError
from jianmu.memory.long_term.mem0 import Mem0LongTermMemory
from jianmu.memory.long_term.mem0_clients import keyless_mem0_config
from jianmu.memory.long_term.mem0_wire import from_wire, to_wire, user_id_of
from jianmu.messages import Message
from jianmu.rag import CallableEmbedder
from jianmu.serialization import same

if TYPE_CHECKING:
    from pathlib import Path

HERE = ("agent", "thread")


class Recorder:
    """Writes down what it is asked, with the signatures of a Mem0 that is not the installed one."""

    def __init__(self, answer: Any = None) -> None:
        self.answer: Any = {"results": []} if answer is None else answer
        self.calls: list[dict[str, Any]] = []

    def add(self, messages: Any, **options: Any) -> Any:
        self.calls.append({"messages": messages, **options})
        return self.answer

    def search(self, query: str, **options: Any) -> Any:
        self.calls.append({"query": query, **options})
        return self.answer


class OldMem0(Recorder):
    """The signatures of the local library before 2.0."""

    def search(
        self, query: str, *, user_id: Any = None, limit: int = 100, filters: Any = None, threshold: Any = None
    ) -> Any:  # type: ignore[override]
        return super().search(query, user_id=user_id, limit=limit, filters=filters, threshold=threshold)


class NewMem0(Recorder):
    """The signatures of the local library since 2.0."""

    def search(self, query: str, *, top_k: int = 20, filters: Any = None, threshold: float = 0.1, **kwargs: Any) -> Any:
        if {"user_id", "agent_id", "run_id"} & set(kwargs):
            raise ValueError("entity ids belong into filters")
        return super().search(query, top_k=top_k, filters=filters, threshold=threshold, **kwargs)

    def add(self, messages: Any, *, user_id: Any, metadata: Any = None, infer: bool = True) -> Any:  # type: ignore[override]
        return super().add(messages, user_id=user_id, metadata=metadata, infer=infer)


def hit(memory_id: str, score: float | None, **more: Any) -> dict[str, Any]:
    return {"id": memory_id, "memory": f"memory {memory_id}", "score": score, **more}


@pytest.mark.parametrize("infer", [True, False])
def test_infer_is_passed_on_unchanged(infer: bool) -> None:
    """R32: the infer of the constructor reaches add; True is the default; a call may say otherwise."""
    client = Recorder()
    memory = Mem0LongTermMemory(client=client, infer=infer)
    memory.record("tea")
    memory.record("tea", infer=not infer)
    assert [call["infer"] for call in client.calls] == [infer, not infer]
    assert Mem0LongTermMemory(client=client).infer is True


def test_add_gets_text_user_id_and_key() -> None:
    """R32: messages become text, the namespace the user id, the key goes into the metadata."""
    client = Recorder()
    talk = [Message.user("Tea?"), Message.assistant("Green.")]
    Mem0LongTermMemory(client=client).record(talk, namespace=HERE, key="k", metadata={"type": "x"})
    assert client.calls == [
        {
            "messages": "user: Tea?\nassistant: Green.",
            "user_id": "agent/thread",
            "metadata": {"type": "x", "key": "k"},
            "infer": True,
        }
    ]


def test_search_speaks_the_new_dialect() -> None:
    """R32: since 2.0 the user id sits in filters only, the limit is top_k, and weak hits are not hidden."""
    client = NewMem0()
    Mem0LongTermMemory(client=client).retrieve("tea", limit=3, namespace=HERE)
    assert client.calls == [{"query": "tea", "top_k": 3, "filters": {"user_id": "agent/thread"}, "threshold": 0.0}]


def test_search_speaks_the_old_dialect() -> None:
    """R32: before 2.0 the user id is asked for on top, and the limit is limit."""
    client = OldMem0()
    Mem0LongTermMemory(client=client).retrieve("tea", limit=3, namespace=HERE)
    assert client.calls == [
        {
            "query": "tea",
            "user_id": "agent/thread",
            "limit": 3,
            "filters": {"user_id": "agent/thread"},
            "threshold": 0.0,
        }
    ]


@pytest.mark.parametrize("client", [OldMem0(), NewMem0(), Recorder()], ids=["old", "new", "hosted"])
def test_options_never_widen_the_namespace(client: Recorder) -> None:
    """R31: filters and threshold are the caller's; the user id is not."""
    memory = Mem0LongTermMemory(client=client)
    memory.retrieve("tea", namespace=HERE, filters={"type": "x", "user_id": "*"}, threshold=0.5)
    assert client.calls[-1]["filters"] == {"type": "x", "user_id": "agent/thread"}
    assert client.calls[-1]["threshold"] == 0.5


def test_a_hit_of_another_user_is_dropped() -> None:
    """R31: a store that answers with another tenant's memory is not believed."""
    answer = [hit("1", 0.9, user_id="agent/other"), hit("2", 0.8, user_id="agent/thread"), hit("3", 0.7)]
    found = Mem0LongTermMemory(client=Recorder(answer)).retrieve("tea", namespace=HERE)
    assert [item["id"] for item in found] == ["2", "3"]


def test_the_best_come_first_and_no_score_comes_last() -> None:
    """R32: whatever order Mem0 answers in."""
    answer = {"results": [hit("a", 0.1), hit("b", None), hit("c", 0.9), hit("d", 0.9)]}
    found = Mem0LongTermMemory(client=Recorder(answer)).retrieve("tea", limit=3)
    assert [item["id"] for item in found] == ["c", "d", "a"]


@pytest.mark.parametrize("query", ["", " \n\t"])
def test_an_empty_query_is_not_sent(query: str) -> None:
    """R32: Mem0 raises on it; nothing asked is nothing found."""
    client = Recorder()
    assert Mem0LongTermMemory(client=client).retrieve(query) == []
    assert client.calls == []


@pytest.mark.parametrize(
    ("raw", "ids"),
    [
        ({"results": [{"id": 1}]}, [1]),
        ({"results": [{"id": 1}], "relations": [{"source": "x"}]}, [1]),
        ([{"id": 1}, {"id": 2}], [1, 2]),
        ([], []),
        ({}, []),
        ({"results": None}, []),
        ({"message": "queued"}, []),
        (None, []),
        ("text", []),
        (["text", {"id": 3}], [3]),
    ],
)
def test_results_are_found_in_every_answer(raw: Any, ids: list[int]) -> None:
    """R32: of a dict its results, of a list the list itself, of anything else nothing."""
    assert [item["id"] for item in Mem0LongTermMemory._extract_results(raw)] == ids


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"id": "1", "memory": "tea", "metadata": {"a": 1}, "score": 0.5}, ("1", "tea", {"a": 1}, 0.5)),
        ({"id": 7, "content": "tea", "metadata": None}, ("7", "tea", {}, None)),
        ({"memory": None, "content": "tea", "score": 1}, (None, "tea", {}, 1.0)),
        ({"id": "1", "data": {"memory": "tea"}}, ("1", "tea", {}, None)),
        ({}, (None, "", {}, None)),
    ],
)
def test_items_are_normalized(raw: Any, expected: tuple[Any, ...]) -> None:
    """R32: id text or None, content from memory or content, metadata a dict, score a float or None."""
    item = Mem0LongTermMemory._normalize_item(raw)
    assert tuple(item[name] for name in ("id", "content", "metadata", "score")) == expected
    assert list(item) == ["id", "content", "metadata", "score"]


def test_what_add_answers_is_reported() -> None:
    """R32: several facts, no fact, and a write in progress are three different things."""
    two = {"results": [{"id": "1", "memory": "a", "event": "ADD"}, {"id": "2", "memory": "b", "event": "UPDATE"}]}
    gone = {"results": [{"id": "1", "memory": "a", "event": "DELETE"}, {"id": "2", "memory": "b", "event": "NONE"}]}
    pending = {"message": "queued", "status": "PENDING", "event_id": "e1"}
    old_pending = {"results": [pending]}
    answers = [two, gone, {"results": []}, pending, old_pending]
    results = [Mem0LongTermMemory(client=Recorder(answer)).record("tea") for answer in answers]
    assert [(result["status"], result["id"], result["event_id"]) for result in results] == [
        ("stored", "1", None),
        ("nothing", None, None),
        ("nothing", None, None),
        ("pending", None, "e1"),
        ("pending", None, "e1"),
    ]
    assert [item["content"] for item in results[0]["results"]] == ["a", "b"]


@pytest.mark.parametrize(
    "options", [{"api_key": "m0-x"}, {"config": {"embedder": {"provider": "ollama"}}, "infer": False}]
)
def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch, options: Any) -> None:
    """R4: an ImportError that says what to install."""
    monkeypatch.setitem(sys.modules, "mem0", None)
    with pytest.raises(ImportError, match=r"jianmu\[mem0\]"):
        Mem0LongTermMemory(**options)


class TestMetadataOnTheWire:
    """R32: any plain data survives the way through stores that take only short flat values."""

    simple = (
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.datetimes() | st.binary()
    )
    values = st.recursive(simple, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)
    names = st.text() | st.sampled_from(["key", "data", "hash", "user_id", "jianmu_metadata", "a-b", "type", "*"])

    @given(st.dictionaries(names, values, max_size=5))
    def test_comes_back_equal(self, metadata: dict[str, Any]) -> None:
        read_back = from_wire(to_wire(metadata, None))
        assert same(sorted(read_back.items()), sorted(metadata.items()))

    @given(st.dictionaries(names, values, max_size=5), st.none() | st.text())
    def test_is_flat(self, metadata: dict[str, Any], key: str | None) -> None:
        for name, value in to_wire(metadata, key).items():
            assert name.isascii()
            assert isinstance(value, (str, int, float, bool))
            assert not isinstance(value, float) or math.isfinite(value)
            str(value).encode()

    def test_short_plain_values_stay_readable_for_filters(self) -> None:
        plain = {"type": "language", "sure": True, "count": 3, "weight": 0.5, "标": 1, "nothing": None}
        wire = to_wire(plain, "k")
        assert {name: wire[name] for name in ("type", "sure", "count", "weight", "key")} == {
            "type": "language",
            "sure": True,
            "count": 3,
            "weight": 0.5,
            "key": "k",
        }
        assert set(wire) == {"type", "sure", "count", "weight", "key", "jianmu_metadata"}

    def test_names_that_mem0_uses_are_out_of_its_way(self) -> None:
        taken = {"user_id": "x", "data": "y", "expiration_date": date(2020, 1, 1), "created_at": datetime.now(UTC)}
        assert set(to_wire(taken, None)) == {"jianmu_metadata"}

    def test_metadata_of_others_is_passed_on(self) -> None:
        foreign = {"category": "x", "tags": ["a"], "jianmu_metadata": "not ours"}
        assert from_wire(foreign) == foreign
        assert from_wire(None) == {}

    def test_what_cannot_be_stored_is_named(self) -> None:
        with pytest.raises(SerializationError, match=r"metadata\.a"):
            to_wire({"a": object()}, None)


def test_user_ids() -> None:
    """R32: ("agent", "thread") is "agent/thread"; a wildcard is only a label; the root has a name of its own."""
    assert [user_id_of(namespace) for namespace in (HERE, ("*",), (" a",), (), None, ("~",))] == [
        "agent/thread",
        "%2A",
        "%20a",
        "~",
        "~",
        "%7E",
    ]


LOCAL_EMBEDDER = {"embedder": {"provider": "ollama"}}


class TestKeys:
    """R32: Mem0's default needs an OpenAI key; that is said before Mem0 does, with the way out."""

    @pytest.fixture(autouse=True)
    def _no_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    @pytest.mark.parametrize(
        ("config", "infer", "reason"),
        [
            (None, True, "embed text with OpenAI"),
            (None, False, "embed text with OpenAI"),
            ({"vector_store": {"provider": "chroma"}}, True, "embed text with OpenAI"),
            ({"embedder": {"provider": "openai", "config": None}}, False, "embed text with OpenAI"),
            (LOCAL_EMBEDDER, True, "needs a language model"),
            ({**LOCAL_EMBEDDER, "llm": {"config": {"model": "x"}}}, True, "needs a language model"),
        ],
        ids=["default", "no-infer", "chroma", "empty", "no-llm", "keyless-llm"],
    )
    def test_missing_is_a_clear_error(self, config: Any, infer: bool, reason: str) -> None:
        with pytest.raises(ConfigurationError, match=reason) as caught:
            Mem0LongTermMemory(config=config, infer=infer)
        assert "OPENAI_API_KEY" in str(caught.value)
        assert "keyless_mem0_config" in str(caught.value)

    def test_a_keyless_configuration_is_only_for_infer_false(self, tmp_path: Path) -> None:
        embedder = CallableEmbedder(lambda texts: [[1.0]] * len(texts), dimension=1)
        with pytest.raises(ConfigurationError, match="infer=True needs a language model"):
            Mem0LongTermMemory(config=keyless_mem0_config(tmp_path, embedder))

    def test_the_given_configuration_is_not_changed(self, tmp_path: Path) -> None:
        embedder = CallableEmbedder(lambda texts: [[1.0]] * len(texts), dimension=1)
        config = keyless_mem0_config(tmp_path, embedder)
        del config["llm"]
        before = {name: dict(section) if isinstance(section, dict) else section for name, section in config.items()}
        Mem0LongTermMemory(config=config, infer=False).close()
        assert config == before

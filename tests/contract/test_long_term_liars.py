"""The contract of long-term memory catches backends that break it, each by the law it breaks."""

from __future__ import annotations

import copy
import inspect
import threading
from typing import TYPE_CHECKING, Any

import pytest

from jianmu.messages import Message
from jianmu.testing.long_term import LongTermMemoryContract

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SHELVES: dict[Any, dict[Any, list[dict[str, Any]]]] = {}


class Honest:
    """A backend in memory that keeps every law; reopening a folder finds the same data."""

    def __init__(self, folder: Path) -> None:
        self.shelves = _SHELVES.setdefault((type(self), folder), {})
        self.lock = threading.Lock()

    def place(self, namespace: Any) -> Any:
        if isinstance(namespace, str) or "" in (namespace or ()):
            raise ValueError("a namespace is a tuple of non-empty labels")
        return tuple(namespace or ())

    def text(self, inputs: Any) -> str:
        messages = [inputs] if isinstance(inputs, (str, Message)) else inputs
        text = "\n".join(message if isinstance(message, str) else message.text for message in messages)
        if not text.strip():
            raise ValueError("nothing to record")
        return text

    def record(self, inputs: Any, *, namespace: Any = None, key: Any = None, metadata: Any = None, **_: Any) -> Any:
        item = {"id": key, "content": self.text(inputs), "metadata": copy.deepcopy(metadata or {}), "score": None}
        with self.lock:
            self.shelves.setdefault(self.place(namespace), []).append(item)
        return {"id": key, "key": key, "status": "stored", "results": [copy.deepcopy(item)], "event_id": None}

    def retrieve(self, query: str, *, limit: int = 5, namespace: Any = None, **_: Any) -> list[Any]:
        if limit < 1:
            raise ValueError("limit")
        if not query.strip():
            return []
        found = [{**copy.deepcopy(item), "score": self.score(query, item)} for item in self.held(namespace)]
        return sorted((item for item in found if item["score"]), key=lambda item: -item["score"])[:limit]

    def held(self, namespace: Any) -> list[dict[str, Any]]:
        return list(self.shelves.get(self.place(namespace), []))

    def score(self, query: str, item: Any) -> float:
        letters = set(query.lower()) - set(" aeiou")
        return len(letters & set(item["content"].lower())) / (len(letters) or 1)

    def format_retrieved(self, retrieved: Any, **_: Any) -> str:
        return "\n".join(f"{number}. {item['content']} {item['id']}" for number, item in enumerate(retrieved, 1))

    def delete(self, memory_id: str, *, namespace: Any = None) -> bool:
        shelf = self.shelves.get(self.place(namespace), [])
        kept = [item for item in shelf if item["id"] != memory_id]
        self.shelves[self.place(namespace)] = kept
        return len(kept) < len(shelf)


class LooksBelow(Honest):
    def held(self, namespace: Any) -> list[dict[str, Any]]:
        place = self.place(namespace)
        return [item for name, shelf in self.shelves.items() if name[: len(place)] == place for item in shelf]


class JoinsLabels(Honest):
    def place(self, namespace: Any) -> Any:
        return "/".join(super().place(namespace))


class GluesLabels(Honest):
    def place(self, namespace: Any) -> Any:
        return "".join(super().place(namespace))


class TrimsLabels(Honest):
    def place(self, namespace: Any) -> Any:
        return tuple(label.strip() for label in super().place(namespace))


class FoldsCase(Honest):
    def place(self, namespace: Any) -> Any:
        return tuple(label.lower() for label in super().place(namespace))


class ExpandsStars(Honest):
    def held(self, namespace: Any) -> list[dict[str, Any]]:
        everything = [item for shelf in self.shelves.values() for item in shelf]
        return everything if namespace == ("*",) else super().held(namespace)


class DecodesLabels(Honest):
    def place(self, namespace: Any) -> Any:
        return tuple(label.replace("%2F", "/").replace("%2A", "*") for label in super().place(namespace))


class SpreadsStrings(Honest):
    def place(self, namespace: Any) -> Any:
        return tuple(namespace or ())


class IgnoresLimit(Honest):
    def retrieve(self, query: str, *, limit: int = 5, **options: Any) -> list[Any]:
        return super().retrieve(query, limit=50 if limit > 0 else limit, **options)


class TakesAnyLimit(Honest):
    def retrieve(self, query: str, *, limit: int = 5, **options: Any) -> list[Any]:
        return super().retrieve(query, limit=max(limit, 1), **options)


class WorstFirst(Honest):
    def retrieve(self, query: str, **options: Any) -> list[Any]:
        return super().retrieve(query, **options)[::-1]


class ListsAllForNothing(Honest):
    def retrieve(self, query: str, **options: Any) -> list[Any]:
        return super().retrieve(query or "the user", **options)


class LendsItsData(Honest):
    def retrieve(self, query: str, *, namespace: Any = None, **options: Any) -> list[Any]:
        found = super().retrieve(query, namespace=namespace, **options)
        return [item for item in self.held(namespace) if item["id"] in {hit["id"] for hit in found}]


class KeepsWhatItWasGiven(Honest):
    def record(self, inputs: Any, *, namespace: Any = None, metadata: Any = None, **options: Any) -> Any:
        result = super().record(inputs, namespace=namespace, metadata=metadata, **options)
        self.held(namespace)[-1]["metadata"] = metadata or {}
        return result


class DropsNone(Honest):
    def record(self, inputs: Any, *, metadata: Any = None, **options: Any) -> Any:
        kept = {name: value for name, value in (metadata or {}).items() if value not in (None, [])}
        return super().record(inputs, metadata=kept, **options)


class WritesDatesAsText(Honest):
    def record(self, inputs: Any, *, metadata: Any = None, **options: Any) -> Any:
        kept = {name: value if name != "when" else str(value) for name, value in (metadata or {}).items()}
        return super().record(inputs, metadata=kept, **options)


class ForgetsOnClosing(Honest):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.shelves = {}


class LosesToThreads(Honest):
    def record(self, inputs: Any, *, namespace: Any = None, **options: Any) -> Any:
        before = self.held(namespace)
        result = super().record(inputs, namespace=namespace, **options)
        if "thread" in str(inputs):
            self.shelves[self.place(namespace)] = [*before[-2:], self.held(namespace)[-1]]
        return result


class DeletesAnywhere(Honest):
    def delete(self, memory_id: str, *, namespace: Any = None) -> bool:
        deleted = [super(DeletesAnywhere, self).delete(memory_id, namespace=place) for place in list(self.shelves)]
        return any(deleted)


class AlwaysDeleted(Honest):
    def delete(self, memory_id: str, *, namespace: Any = None) -> bool:
        super().delete(memory_id, namespace=namespace)
        return True


class RefusesOptions(Honest):
    def retrieve(self, query: str, *, limit: int = 5, namespace: Any = None) -> list[Any]:  # type: ignore[override]
        return super().retrieve(query, limit=limit, namespace=namespace)


class TakesTextOnly(Honest):
    def text(self, inputs: Any) -> str:
        return super().text(inputs if isinstance(inputs, str) else str(inputs))


class CutsText(Honest):
    def text(self, inputs: Any) -> str:
        return super().text(inputs).split("\n")[0]


class HidesItems(Honest):
    def format_retrieved(self, retrieved: Any, **_: Any) -> str:
        return super().format_retrieved(retrieved[:1])


class SaysLittle(Honest):
    def record(self, inputs: Any, **options: Any) -> Any:
        return {**super().record(inputs, **options), "id": None}


class AsciiOnly(Honest):
    def score(self, query: str, item: Any) -> float:
        return super().score(query.encode("ascii", "ignore").decode(), item)


class Formless:
    def record(self, inputs: Any, **_: Any) -> Any: ...
    def retrieve(self, query: str, **_: Any) -> Any: ...


LIARS: dict[type, str] = {
    LooksBelow: "test_namespaces_never_mix",
    JoinsLabels: "test_namespaces_never_mix",
    GluesLabels: "test_namespaces_never_mix",
    TrimsLabels: "test_namespaces_never_mix",
    FoldsCase: "test_namespaces_never_mix",
    ExpandsStars: "test_namespaces_never_mix",
    DecodesLabels: "test_namespaces_never_mix",
    SpreadsStrings: "test_a_bare_string_is_no_namespace",
    IgnoresLimit: "test_gives_at_most_the_limit",
    TakesAnyLimit: "test_gives_at_most_the_limit",
    WorstFirst: "test_finds_what_was_recorded",
    ListsAllForNothing: "test_an_empty_query_finds_nothing",
    LendsItsData: "test_what_it_returns_belongs_to_the_caller",
    KeepsWhatItWasGiven: "test_what_it_returns_belongs_to_the_caller",
    DropsNone: "test_keeps_metadata_as_it_was",
    WritesDatesAsText: "test_keeps_metadata_as_it_was",
    ForgetsOnClosing: "test_is_still_there_after_reopening",
    LosesToThreads: "test_loses_nothing_to_threads",
    DeletesAnywhere: "test_forgets_only_in_its_own_namespace",
    AlwaysDeleted: "test_forgets_only_in_its_own_namespace",
    RefusesOptions: "test_ignores_options_of_other_backends",
    TakesTextOnly: "test_refuses_to_record_nothing",
    CutsText: "test_keeps_any_text",
    HidesItems: "test_formats_for_a_model",
    SaysLittle: "test_says_what_it_did",
    AsciiOnly: "test_finds_chinese",
    Formless: "test_has_the_three_methods",
}


def _suite(backend: Callable[[Path], Any]) -> LongTermMemoryContract:
    class Suite(LongTermMemoryContract):
        def open(self, folder: Path) -> Any:
            return backend(folder)

    return Suite()


def _laws() -> list[str]:
    return [name for name, _ in inspect.getmembers(LongTermMemoryContract) if name.startswith("test_")]


@pytest.mark.parametrize("law", _laws())
def test_an_honest_backend_passes(law: str, tmp_path: Path) -> None:
    getattr(_suite(Honest), law)(tmp_path)


@pytest.mark.parametrize("liar", LIARS, ids=lambda liar: liar.__name__)
def test_a_liar_is_caught(liar: Any, tmp_path: Path) -> None:
    make: Callable[[Path], Any] = (lambda folder: liar()) if liar is Formless else liar
    with pytest.raises((AssertionError, TypeError)):
        getattr(_suite(make), LIARS[liar])(tmp_path)


def test_every_law_that_can_be_broken_silently_has_a_liar() -> None:
    free = {"test_an_empty_store_finds_nothing", "test_no_namespace_is_the_root", "test_takes_messages"}
    assert set(_laws()) - set(LIARS.values()) == free

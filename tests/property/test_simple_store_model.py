"""SimpleStore against a plain dict: any sequence of operations gives the same answers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from jianmu.memory import SimpleStore

names = st.sampled_from(["a", "b", "content", "metadata", "用户", "a/b", "..", " "])
namespaces = st.lists(names, max_size=2).map(tuple)
metadata = st.dictionaries(names, st.none() | st.integers() | st.text() | st.lists(st.booleans()), max_size=2)


class StoreAgainstDict(RuleBasedStateMachine):
    """R33, R34, R36: two open stores on one file and one dict."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "store.json"
        self.stores = [SimpleStore(self.path), SimpleStore(self.path)]
        self.model: dict[tuple[tuple[str, ...], str], tuple[str, Any]] = {}

    @rule(which=st.booleans(), namespace=namespaces, key=names, text=st.text(min_size=1), metadata=metadata)
    def record(self, which: bool, namespace: tuple[str, ...], key: str, text: str, metadata: Any) -> None:
        content = f"tea {text}"
        self.stores[which].record(content, namespace=namespace, key=key, metadata=metadata)
        self.model.pop((namespace, key), None)
        self.model[namespace, key] = (content, metadata)

    @rule(which=st.booleans(), namespace=namespaces, key=names)
    def delete(self, which: bool, namespace: tuple[str, ...], key: str) -> None:
        expected = self.model.pop((namespace, key), None) is not None
        assert self.stores[which].delete(key, namespace=namespace) is expected

    @rule()
    def reopen(self) -> None:
        self.stores[0] = SimpleStore(self.path)

    @rule(which=st.booleans(), namespace=namespaces, limit=st.integers(1, 5))
    def retrieve(self, which: bool, namespace: tuple[str, ...], limit: int) -> None:
        found = self.stores[which].retrieve("tea", limit=limit, namespace=namespace)
        expected = {key: value for (place, key), value in self.model.items() if place == namespace}
        assert len(found) == min(limit, len(expected))
        assert {item["id"]: (item["content"], item["metadata"]) for item in found}.items() <= expected.items()

    @invariant()
    def every_record_can_be_got(self) -> None:
        for (namespace, key), (content, kept) in self.model.items():
            item = self.stores[0].get(key, namespace=namespace)
            assert item is not None
            assert (item["content"], item["metadata"]) == (content, kept)

    def teardown(self) -> None:
        self.folder.cleanup()


TestStoreAgainstDict = StoreAgainstDict.TestCase
TestStoreAgainstDict.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)

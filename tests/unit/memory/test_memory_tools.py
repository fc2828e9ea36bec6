"""memory_search and memory_add: what a model sees of long-term memory."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from jianmu.errors import ConfigurationError, LongTermMemoryError, NamespaceError, ToolArgumentsError
from jianmu.events import ListSink, RuntimeEventBus, scope
from jianmu.memory.long_term.service import MemoryService
from jianmu.memory.long_term.simple_store import SimpleStore
from jianmu.memory.tools import MemoryAddTool, MemorySearchTool, create_memory_tools
from jianmu.tools.base import Tool, ToolContext

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> SimpleStore:
    return SimpleStore(tmp_path / "store.json")


class Broken:
    """A backend whose every call fails."""

    def record(self, *args: Any, **kwargs: Any) -> Any:
        raise LongTermMemoryError("the disk is on fire")

    retrieve = format_retrieved = record


class Answering:
    """A backend of a user's own, whose record answers in its own way."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def record(self, inputs: Any, **kwargs: Any) -> Any:
        return self.answer


class TestService:
    def test_is_bound_to_its_namespace(self, store: SimpleStore) -> None:
        """R37: add, search, format_retrieved and delete all stay in the namespace; .memory is the backend."""
        service = MemoryService(long_term_memory=store, namespace=("session",))
        assert service.memory is store
        assert service.namespace == ("session",)
        assert service.add("用户喜欢 Python", key="pref1", metadata={"type": "language"})["id"] == "pref1"
        store.record("Python elsewhere", key="other")
        results = service.search("Python", limit=3)
        assert [item["content"] for item in results] == ["用户喜欢 Python"]
        assert service.format_retrieved(results) == (
            '1. 用户喜欢 Python (id: pref1, score: 1.000, metadata: {"type": "language"})'
        )
        assert service.delete("other") is False
        assert service.delete("pref1") is True
        assert service.search("Python") == []

    def test_limit_counts(self, store: SimpleStore) -> None:
        """R37: search takes a limit; five without one."""
        service = MemoryService(store)
        for number in range(7):
            service.add(f"tea {number}", key=f"k{number}")
        assert [len(service.search("tea", limit=2)), len(service.search("tea"))] == [2, 5]

    def test_delete_is_false_where_the_backend_cannot(self) -> None:
        """R37: delete is found by getattr; a backend without it deletes nothing."""
        assert MemoryService(Answering(None)).delete("x") is False  # type: ignore[arg-type]

    def test_makes_its_tools_in_order(self, store: SimpleStore) -> None:
        """R37: [memory_search, memory_add]."""
        tools = MemoryService(store, ("session",)).as_tools()
        assert [type(tool) for tool in tools] == [MemorySearchTool, MemoryAddTool]
        assert [tool.name for tool in tools] == ["memory_search", "memory_add"]

    def test_a_service_within_never_leaves(self, store: SimpleStore) -> None:
        """R43: a narrower service is below, whatever its labels are called."""
        service = MemoryService(store, ("agent",))
        assert service.within(("..", "/")).namespace == ("agent", "..", "/")

    def test_refuses_a_bare_string(self, store: SimpleStore) -> None:
        with pytest.raises(NamespaceError):
            MemoryService(store, "session")


@pytest.mark.parametrize("kind", [MemorySearchTool, MemoryAddTool])
class TestBoth:
    def test_are_tools_that_describe_themselves(self, store: SimpleStore, kind: type[Tool]) -> None:
        """R38: Tool subclasses with name, description, input_schema and output_schema, all JSON."""
        tool = kind(store)
        assert isinstance(tool, Tool)
        assert tool.description
        assert tool.output_schema == {"type": "string"}
        assert json.loads(json.dumps(tool.input_schema)) == tool.input_schema

    def test_take_exactly_one_backend(self, store: SimpleStore, kind: Any) -> None:
        """R38: long_term_memory or memory, a backend or a service; none or both is an error."""
        service = MemoryService(store, ("agent",))
        made = [kind(store), kind(long_term_memory=store), kind(memory=store), kind(memory=service)]
        assert all(isinstance(tool.service, MemoryService) and tool.service.memory is store for tool in made)
        assert [tool.service.namespace for tool in made] == [(), (), (), ("agent",)]
        assert kind(memory=service, namespace=("x",)).service.namespace == ("agent", "x")
        for wrong in ({}, {"long_term_memory": store, "memory": store}):
            with pytest.raises(ConfigurationError, match="exactly one"):
                kind(**wrong)


def test_schemas_name_the_parameters() -> None:
    """R39, R40: query and content are required; k, namespace, metadata and key are not."""
    search, add = MemorySearchTool(Broken()).input_schema, MemoryAddTool(Broken()).input_schema  # type: ignore[arg-type]
    assert (set(search["properties"]), search["required"]) == ({"query", "k", "namespace"}, ["query"])
    assert (set(add["properties"]), add["required"]) == ({"content", "metadata", "key", "namespace"}, ["content"])


def test_the_factory_equals_as_tools(store: SimpleStore) -> None:
    """R41: create_memory_tools is MemoryService(...).as_tools()."""
    made = create_memory_tools(namespace=("agent",), long_term_memory=store)
    service = MemoryService(store, namespace=("agent",)).as_tools()
    assert [type(tool) for tool in made] == [type(tool) for tool in service]
    assert [tool.service.namespace for tool in made] == [tool.service.namespace for tool in service]  # type: ignore[attr-defined]
    assert all(tool.service.memory is store for tool in made)  # type: ignore[attr-defined]


class TestAdd:
    def test_says_id_and_key(self, store: SimpleStore) -> None:
        """R40: Stored (id: ..., key: ...)."""
        add = MemoryAddTool(store, namespace=("agent",))
        assert add.run("tea", metadata={"n": 1}, key="pref1") == "Stored (id: pref1, key: pref1)"
        item = store.get("pref1", namespace=("agent",))
        assert item is not None
        assert (item["content"], item["metadata"]) == ("tea", {"n": 1})

    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            ({"id": "mem_1"}, "Stored (id: mem_1, key: pref1)"),
            ({"results": [{"id": "mem_1"}, {"id": "mem_2"}]}, "Stored (id: mem_1, key: pref1)"),
            ([{"id": "mem_1"}], "Stored (id: mem_1, key: pref1)"),
            ("mem_1", "Stored (id: mem_1, key: pref1)"),
            (None, "Stored (id: None, key: pref1)"),
            ({"id": None, "status": "nothing", "results": []}, "Nothing new to store (key: pref1)"),
            ({"id": None, "status": "pending"}, "Accepted, can be found in a moment (key: pref1)"),
        ],
        ids=["dict", "results", "list", "text", "nothing returned", "nothing stored", "pending"],
    )
    def test_reads_what_any_backend_answers(self, answer: Any, told: str) -> None:
        """R40: also a backend whose result has another shape; nothing stored is not called stored."""
        assert MemoryAddTool(Answering(answer)).run("tea", key="pref1") == told  # type: ignore[arg-type]

    def test_makes_a_uuid_without_a_key(self, store: SimpleStore) -> None:
        """R40: two facts without keys are two records."""
        add = MemoryAddTool(store)
        told = [add.run("tea one"), add.run("tea two")]
        keys = [re.fullmatch(r"Stored \(id: (.+), key: \1\)", text) for text in told]
        assert len({UUID(key[1]) for key in keys if key}) == 2
        assert len(store.retrieve("tea")) == 2

    async def test_a_call_that_is_made_again_stores_once(self, store: SimpleStore) -> None:
        """R40: after a crash the same call gets the same key."""
        add = MemoryAddTool(store)
        context = ToolContext(idempotency_key="thread/3/call_1")
        told = {await add.invoke({"content": "tea"}, context=context) for _ in range(2)}
        assert len(told) == len(store.retrieve("tea")) == 1

    @pytest.mark.parametrize("content", ["", "  "])
    def test_an_error_is_told(self, store: SimpleStore, content: str) -> None:
        """R40: Error storing memory: ... for whatever the backend raises."""
        assert MemoryAddTool(store).run(content, key="k").startswith("Error storing memory: there is no text")
        assert MemoryAddTool(Broken()).run("tea") == "Error storing memory: the disk is on fire"  # type: ignore[arg-type]


class TestSearch:
    def test_gives_formatted_text(self, store: SimpleStore) -> None:
        """R39: numbered lines, at most k."""
        for number in range(7):
            store.record(f"tea {number}", key=f"k{number}")
        search = MemorySearchTool(store)
        assert search.run("tea", k=2) == "1. tea 6 (id: k6, score: 1.000)\n2. tea 5 (id: k5, score: 1.000)"
        assert len(search.run("tea").splitlines()) == 5

    @pytest.mark.parametrize("query", ["coffee", "", " "])
    def test_says_when_there_is_nothing(self, store: SimpleStore, query: str) -> None:
        """R39: No results."""
        store.record("tea", key="k")
        assert MemorySearchTool(store).run(query) == "No results."

    def test_an_error_is_no_result_but_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """R39: any exception also gives No results., and the log tells why."""
        assert MemorySearchTool(Broken()).run("tea") == "No results."  # type: ignore[arg-type]
        assert "the disk is on fire" in caplog.text

    def test_a_damaged_store_is_no_result_and_stays(self, store: SimpleStore) -> None:
        """R39, R33: the model reads No results.; the file is left as it is."""
        store.db_path.write_text("{", encoding="utf-8")
        search, add = MemoryService(store).as_tools()
        assert search.run(query="tea") == "No results."
        assert add.run(content="tea").startswith("Error storing memory: ")
        assert store.db_path.read_text(encoding="utf-8") == "{"


class TestNamespaceOfTheModel:
    """R43: it is a path below the tool's own namespace; nothing reaches above or beside."""

    def test_add_and_search_meet_below(self, store: SimpleStore) -> None:
        search, add = create_memory_tools(namespace=("agent",), long_term_memory=store)
        add.run(content="tea below", namespace=["prefs"])
        assert "tea below" in search.run(query="tea", namespace=["prefs"])
        assert search.run(query="tea") == "No results."
        assert store.retrieve("tea", namespace=("agent", "prefs"))

    @pytest.mark.parametrize(
        "namespace",
        [["other"], [".."], ["..", "other"], ["/other"], ["../other"], ["*"], ["agent", "..", "other"], []],
        ids=str,
    )
    def test_never_reaches_beside_or_above(self, store: SimpleStore, namespace: list[str]) -> None:
        for place in (("other",), ("agent2",), ()):
            store.record("secret", namespace=place, key="s")
        search, add = create_memory_tools(namespace=("agent",), long_term_memory=store)
        assert search.run(query="secret", namespace=namespace) == "No results."
        before = {place: store.retrieve("secret", namespace=place) for place in (("other",), ("agent2",), ())}
        add.run(content="secret of the model", key="s", namespace=namespace)
        assert {place: store.retrieve("secret", namespace=place) for place in before} == before
        assert store.get("s", namespace=("agent", *namespace)) is not None

    @pytest.mark.parametrize("namespace", ["other", [""], [1], {"a": 1}], ids=str)
    async def test_what_is_no_namespace_is_refused(self, store: SimpleStore, namespace: Any) -> None:
        search, add = create_memory_tools(namespace=("agent",), long_term_memory=store)
        assert search.run(query="tea", namespace=namespace) == "No results."
        assert add.run(content="tea", namespace=namespace).startswith("Error storing memory: ")
        with pytest.raises(ToolArgumentsError):
            await add.invoke({"content": "tea", "namespace": namespace})
        assert not store.db_path.exists()


class TestInvoke:
    async def test_checks_the_arguments(self, store: SimpleStore) -> None:
        """R42: invoke validates before it runs."""
        search, add = MemoryService(store).as_tools()
        wrong = [
            (search, {}),
            (search, {"query": 1}),
            (search, {"query": "x", "k": 0}),
            (add, {"content": ""}),
            (add, {}),
        ]
        for tool, arguments in wrong:
            with pytest.raises(ToolArgumentsError):
                await tool.invoke(arguments)

    async def test_works_off_the_event_loop(self, store: SimpleStore) -> None:
        """R42: run is sync; invoke runs it in a thread."""
        threads: list[threading.Thread] = []

        class Watching(SimpleStore):
            def retrieve(self, query: str, **options: Any) -> Any:
                threads.append(threading.current_thread())
                return super().retrieve(query, **options)

        search, add = MemoryService(Watching(store.db_path)).as_tools()
        assert await add.invoke({"content": "tea", "key": "k"}) == "Stored (id: k, key: k)"
        assert "tea" in await search.invoke({"query": "tea", "k": 1})
        assert threads[0] is not threading.current_thread()


class TestEvents:
    """R39: what the tools do can be observed."""

    @pytest.fixture
    def bus(self) -> Iterator[RuntimeEventBus]:
        bus = RuntimeEventBus()
        yield bus
        bus.close()

    def test_are_put_on_the_given_bus(self, store: SimpleStore, bus: RuntimeEventBus) -> None:
        bus.attach(sink := ListSink())
        MemoryAddTool(store, namespace=("agent",), events=bus).run("tea", key="k")
        MemorySearchTool(store, namespace=("agent",), events=bus).run("tea")
        MemorySearchTool(Broken(), events=bus).run("tea", namespace=["x"])  # type: ignore[arg-type]
        MemoryAddTool(Broken(), events=bus).run("tea")  # type: ignore[arg-type]
        bus.flush()
        error = "the disk is on fire"
        assert [(event.type, event.payload) for event in sink.events] == [
            ("memory.added", {"namespace": ("agent",), "memory_id": "k", "key": "k"}),
            ("memory.searched", {"namespace": ("agent",), "query": "tea", "results": 1}),
            ("memory.failed", {"operation": "search", "namespace": ("x",), "error": error}),
            ("memory.failed", {"operation": "add", "namespace": (), "error": error}),
        ]

    async def test_find_the_bus_of_the_run(self, store: SimpleStore, bus: RuntimeEventBus) -> None:
        """Also from the thread in which invoke runs the tool."""
        bus.attach(sink := ListSink())
        with scope(bus=bus, thread_id="t"):
            await MemoryAddTool(store).invoke({"content": "tea", "key": "k"})
        bus.flush()
        assert [(event.type, event.thread_id) for event in sink.events] == [("memory.added", "t")]

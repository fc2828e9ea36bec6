"""The contract of long-term memory as a test suite: subclass it for a backend and pytest runs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from jianmu.memory.long_term.protocol import LongTermMemoryProtocol
from jianmu.messages import Message, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jianmu.memory.long_term.protocol import MemoryItem
    from jianmu.namespaces import Namespace

HERE: Namespace = ("agent", "thread")

# Pairs that a backend which joins, trims, folds or expands names would confuse.
LOOK_ALIKES: list[tuple[Namespace, Namespace]] = [
    (("agent", "thread"), ("agent",)),
    (("agent", "thread"), ("agent/thread",)),
    (("agent",), ("agent ",)),
    (("agent",), (" agent",)),
    (("agent",), ("Agent",)),
    (("agent",), ("agent1",)),
    (("a", "b", "c"), ("a", "bc")),
    (("%2A",), ("*",)),
    (("a%2Fb",), ("a/b",)),
    (("a.b",), ("a", "b")),
    (("用户",), ("用户名",)),
    (("🎉",), ("🎊",)),
    (("*",), ("agent",)),
    (("%",), ("_",)),
]


class LongTermMemoryContract(ABC):
    """What every long-term memory has to do, whatever it is made of.

    Subclass it, write `open`, and let pytest collect the subclass. A backend that cannot forget needs no ``delete``:
    the tests of it then have nothing to check.

    Attributes:
        persistent: set it to False for a backend that lives in memory.

    Example:
        >>> class TestMine(LongTermMemoryContract):  # doctest: +SKIP
        ...     def open(self, folder):
        ...         return MyMemory(folder / "memory.db")
    """

    persistent = True

    @abstractmethod
    def open(self, folder: Path) -> LongTermMemoryProtocol:
        """Open the store that lives in a folder; opening it again must find what was stored there."""

    def test_has_the_three_methods(self, tmp_path: Path) -> None:
        """R30: record, retrieve and format_retrieved are there."""
        assert isinstance(self.open(tmp_path), LongTermMemoryProtocol)

    def test_finds_what_was_recorded(self, tmp_path: Path) -> None:
        """R30: what is recorded can be found, best first, with all four fields."""
        memory = self.open(tmp_path)
        _fill(memory)
        found = memory.retrieve("green tea", namespace=HERE)
        assert found[0]["content"] == "The user likes green tea"
        assert all(set(item) == {"id", "content", "metadata", "score"} for item in found)
        scores = [item["score"] for item in found if item["score"] is not None]
        assert scores == sorted(scores, reverse=True)

    def test_finds_chinese(self, tmp_path: Path) -> None:
        """R35: a Chinese query finds the Chinese record it is about."""
        memory = self.open(tmp_path)
        for key, text in {"drink": "用户喜欢喝绿茶", "pet": "用户养了一只猫", "city": "他住在上海"}.items():
            memory.record(text, namespace=HERE, key=key)
        assert _best(memory, "喜欢喝什么茶", HERE)["content"] == "用户喜欢喝绿茶"

    def test_says_what_it_did(self, tmp_path: Path) -> None:
        """R30: the result of record carries id, key, status and the stored items."""
        memory = self.open(tmp_path)
        result = memory.record("The user likes green tea", namespace=HERE, key="drink", metadata={"type": "taste"})
        assert result["status"] == "stored"
        assert result["key"] == "drink"
        assert result["id"] == result["results"][0]["id"] == _best(memory, "tea", HERE)["id"]
        assert result["results"][0]["content"] == "The user likes green tea"
        assert result["results"][0]["metadata"].get("type") == "taste"

    def test_gives_at_most_the_limit(self, tmp_path: Path) -> None:
        """R30: retrieve keeps to its limit, and a limit below 1 is an error."""
        memory = self.open(tmp_path)
        for number in range(8):
            memory.record(f"tea number {number}", namespace=HERE, key=f"k{number}")
        assert [len(memory.retrieve("tea", limit=limit, namespace=HERE)) for limit in (1, 3, 8, 50)] == [1, 3, 8, 8]
        assert len(memory.retrieve("tea", namespace=HERE)) == 5
        _refuses(ValueError, lambda: memory.retrieve("tea", limit=0, namespace=HERE))

    def test_an_empty_query_finds_nothing(self, tmp_path: Path) -> None:
        """R35: nothing asked, nothing found, no error."""
        memory = self.open(tmp_path)
        _fill(memory)
        assert [memory.retrieve(query, namespace=HERE) for query in ("", "  \n")] == [[], []]

    def test_an_empty_store_finds_nothing(self, tmp_path: Path) -> None:
        """R30: looking into a store that was never written is no error."""
        assert self.open(tmp_path).retrieve("tea", namespace=HERE) == []

    def test_namespaces_never_mix(self, tmp_path: Path) -> None:
        """R31: a record is found in its own namespace and in no look-alike."""
        memory = self.open(tmp_path)
        names = sorted({name for pair in LOOK_ALIKES for name in pair})
        for number, name in enumerate([(), *names]):
            memory.record(f"tea of number {number}", namespace=name, key="tea")
        for number, name in enumerate([(), *names]):
            found = memory.retrieve("tea", limit=50, namespace=name)
            assert [item["content"] for item in found] == [f"tea of number {number}"], name

    def test_no_namespace_is_the_root(self, tmp_path: Path) -> None:
        """R31: None and () are the same place."""
        memory = self.open(tmp_path)
        memory.record("tea at the root", key="tea")
        assert memory.retrieve("tea", namespace=()) == memory.retrieve("tea") != []

    def test_a_bare_string_is_no_namespace(self, tmp_path: Path) -> None:
        """R31: ("agent") instead of ("agent",) is refused, not spread over its letters; so is an empty label."""
        memory = self.open(tmp_path)
        wrong: list[Any] = ["agent", "", ("agent", "")]
        for namespace in wrong:
            _refuses(ValueError, lambda place=namespace: memory.record("tea", namespace=place, key="tea"))
            _refuses(ValueError, lambda place=namespace: memory.retrieve("tea", namespace=place))

    def test_takes_messages(self, tmp_path: Path) -> None:
        """R31: text, one message and a conversation can be recorded; the words of each can be found."""
        memory = self.open(tmp_path)
        memory.record(Message.user("I drink oolong"), namespace=("one",), key="k")
        talk = [
            Message.user("Do you know matcha?"),
            Message.assistant(tool_calls=[ToolCall(name="look_up")]),
            Message.assistant("It is a green powder."),
        ]
        memory.record(talk, namespace=("talk",), key="k")
        assert _best(memory, "oolong", ("one",))["content"] == "I drink oolong"
        content = _best(memory, "matcha", ("talk",))["content"]
        assert "Do you know matcha?" in content
        assert "It is a green powder." in content

    def test_refuses_to_record_nothing(self, tmp_path: Path) -> None:
        """R31: empty text, no messages and messages without text are errors."""
        memory = self.open(tmp_path)
        silent = Message.assistant(tool_calls=[ToolCall(name="look_up")])
        nothing: list[Any] = ["", " \n", [], silent, [silent]]
        for inputs in nothing:
            _refuses(ValueError, lambda inputs=inputs: memory.record(inputs, namespace=HERE, key="k"))
        assert memory.retrieve("look_up", namespace=HERE) == []

    def test_keeps_metadata_as_it_was(self, tmp_path: Path) -> None:
        """R32: nested, empty, missing and dated values come back equal, and so do names the backend uses itself."""
        metadata: dict[str, Any] = {
            "type": "taste",
            "sure": True,
            "count": 3,
            "weight": 0.5,
            "nothing": None,
            "none_of_these": [],
            "tags": ["hot", "绿"],
            "nested": {"a": [1, {"b": None}], "": "empty name"},
            "when": datetime(2026, 5, 1, 12, 30, tzinfo=UTC),
            "data": "x",
            "hash": "y",
            "user_id": "z",
            "key": "mine",
            "created_at": "long ago",
            "content": "not the content",
            "中文": "🎉",
        }
        memory = self.open(tmp_path)
        memory.record("The user likes green tea", namespace=HERE, key="drink", metadata=metadata)
        found = _best(memory, "green tea", HERE)
        assert {name: found["metadata"].get(name) for name in metadata} == metadata
        assert found["content"] == "The user likes green tea"

    def test_keeps_any_text(self, tmp_path: Path) -> None:
        """R31: quotes, line breaks, percent signs, emoji and rare characters survive; they are text, never syntax."""
        memory = self.open(tmp_path)
        text = 'tea "x" \\ %s {y} \n <z> \x01 👩‍👩‍👧 𠀀 NOT * AND ('
        memory.record(text, namespace=HERE, key="k")
        for query in ("tea", '"x" AND NOT *', "%s {y}", "👩‍👩‍👧", "\ud800 tea"):
            assert [item["content"] for item in memory.retrieve(query, namespace=HERE)] in ([text], []), query
        assert _best(memory, "tea", HERE)["content"] == text

    def test_what_it_returns_belongs_to_the_caller(self, tmp_path: Path) -> None:
        """R30: changing a result or the given metadata never changes the store."""
        memory = self.open(tmp_path)
        given = {"tags": ["hot"]}
        memory.record("green tea", namespace=HERE, key="k", metadata=given)
        given["tags"].append("changed")
        found = _best(memory, "tea", HERE)
        found["content"] = "changed"
        found["metadata"]["tags"].append("changed")
        again = _best(memory, "tea", HERE)
        assert (again["content"], again["metadata"]["tags"]) == ("green tea", ["hot"])

    def test_ignores_options_of_other_backends(self, tmp_path: Path) -> None:
        """R30: one backend can take the place of another, options and all."""
        memory = self.open(tmp_path)
        memory.record("green tea", namespace=HERE, key="k", no_such_option=1)
        assert memory.retrieve("tea", namespace=HERE, no_such_option=1)
        assert memory.format_retrieved(memory.retrieve("tea", namespace=HERE), no_such_option=1)

    def test_formats_for_a_model(self, tmp_path: Path) -> None:
        """R32: every content in order, one numbered line each; nothing for nothing."""
        memory = self.open(tmp_path)
        _fill(memory)
        found = memory.retrieve("the user", namespace=HERE)
        lines = memory.format_retrieved(found).splitlines()
        assert len(lines) == len(found) > 0
        assert all(_tells(line, number, item) for number, (line, item) in enumerate(zip(lines, found, strict=True), 1))
        assert memory.format_retrieved([]) == ""

    def test_is_still_there_after_reopening(self, tmp_path: Path) -> None:
        """R33: a second session finds what the first one stored."""
        if self.persistent:
            _fill(self.open(tmp_path))
            assert _best(self.open(tmp_path), "green tea", HERE)["content"] == "The user likes green tea"

    def test_loses_nothing_to_threads(self, tmp_path: Path) -> None:
        """R30: methods may be called from any thread, at the same time."""
        memory = self.open(tmp_path)

        def work(number: int) -> None:
            memory.record(f"tea of thread {number}", namespace=HERE, key=f"k{number}")
            memory.retrieve("tea", namespace=HERE)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(12)))
        found = memory.retrieve("tea", limit=50, namespace=HERE)
        assert {item["content"] for item in found} == {f"tea of thread {number}" for number in range(12)}

    def test_forgets_only_in_its_own_namespace(self, tmp_path: Path) -> None:
        """R36: where a backend can delete, an id of one namespace says nothing in another."""
        memory = self.open(tmp_path)
        delete: Callable[..., bool] | None = getattr(memory, "delete", None)
        if delete is None:
            return
        memory_id = memory.record("green tea", namespace=HERE, key="k")["id"]
        assert [delete(memory_id, namespace=other) for other in ((), ("agent",), ("*",))] == [False] * 3
        assert memory.retrieve("tea", namespace=HERE)
        assert [delete(memory_id, namespace=HERE) for _ in range(2)] == [True, False]
        assert memory.retrieve("tea", namespace=HERE) == []
        assert delete("no such id", namespace=HERE) is False


def _fill(memory: LongTermMemoryProtocol) -> None:
    for key, text in {
        "drink": "The user likes green tea",
        "pet": "The user has a cat called Momo",
        "city": "The user lives in Berlin",
    }.items():
        memory.record(text, namespace=HERE, key=key)


def _best(memory: LongTermMemoryProtocol, query: str, namespace: Namespace) -> MemoryItem:
    found = memory.retrieve(query, namespace=namespace)
    assert found, f"nothing found for {query!r} in {namespace!r}"
    return found[0]


def _tells(line: str, number: int, item: MemoryItem) -> bool:
    return line.startswith(f"{number}.") and item["content"] in line and str(item["id"]) in line


def _refuses(error: type[Exception], call: Callable[[], object]) -> None:
    try:
        answer = call()
    except error:
        return
    raise AssertionError(f"expected {error.__name__}, got {answer!r}")

"""The contract of checkpoint backends as a test suite: subclass it for a backend and pytest runs it."""

from __future__ import annotations

import random
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from jianmu.errors import CheckpointSaveError
from jianmu.memory.checkpoint.protocol import CheckpointerProtocol
from jianmu.serialization import same
from jianmu.testing.checkpointer_abilities import HOSTILE_THREAD_IDS, AbilityLaws, load, refuses, save

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jianmu.memory.checkpoint.protocol import Envelope

__all__ = ["HOSTILE_THREAD_IDS", "CheckpointerContract", "checkpointer_contract"]

# JSON can not hold these, or not all of it: a backend keeps them equal or refuses them.
_DOUBTFUL: tuple[Any, ...] = (
    *(2**64, -(2**63) - 1, 10**40, float("nan"), float("inf"), "\ud800", "a\udfffb"),
    *((1, 2), {1, 2}, b"x", {1: "a"}, {None: 1}, {(1,): 1}, {"\ud800": 1}, 1 + 2j, Decimal("1.10")),
    *(datetime(2026, 5, 1, tzinfo=UTC), date(2026, 5, 1), UUID(int=7), Path("a"), range(3)),
)

# What is stored there is readable, and no envelope.
_FOREIGN: tuple[Any, ...] = (
    *({"payload": {"step": 1, "state": {}}}, {"state": {}}, {"step": 1}, {"step": "1", "state": {}}),
    *({"step": 1, "state": []}, {"step": 1, "state": None}, {"step": True, "state": {}}, {}, [], "text", 7, None),
)

# Neighbours are equal to Python, or much alike, and not the same to JSON.
_ALIKE: tuple[Any, ...] = (0, 0.0, -0.0, False, None, "", [], {}, [[]], [0], [False], [0.0], [0, 1], 1, 1.0, True, "1")
_RETYPED: list[dict[str, Any]] = [{"v": value, "w": [value, {"x": value}]} for value in _ALIKE]


class CheckpointerContract(AbilityLaws):
    """What every checkpoint backend has to do, whatever it is made of.

    Subclass it, write `open`, and let pytest collect the subclass. The laws of an ability (history, fork, delete,
    prune, lock, asynchronous use) are checked if the backend claims it by having its methods.

    Attributes:
        persistent: set it to False for a backend that lives in memory: what is opened again is then empty.

    Example:
        >>> class TestMine(CheckpointerContract):  # doctest: +SKIP
        ...     def open(self, folder):
        ...         return MyCheckpointer(folder / "checkpoints.db")

        A backend on a server makes the name of its database or the prefix of its keys from the folder's path, and gets
        the server from a fixture:

        >>> class TestOnServer(CheckpointerContract):  # doctest: +SKIP
        ...     @pytest.fixture(autouse=True)
        ...     def _server(self, server_url):
        ...         self.url = server_url
        ...
        ...     def open(self, folder):
        ...         return MyCheckpointer(self.url, prefix=str(folder))
    """

    def write_raw(self, folder: Path, thread_id: str, stored: Any) -> bool:
        """Put any JSON value where the backend would look for a thread's newest checkpoint.

        Optional: by default it does nothing and returns False, and the laws on foreign data are not checked.
        """
        return False

    # -- one checkpoint -------------------------------------------------------------------------------------------

    def test_has_the_two_methods(self, tmp_path: Path) -> None:
        """R6: save_checkpoint and get_checkpoint are there."""
        with self.opened(tmp_path) as checkpointer:
            assert isinstance(checkpointer, CheckpointerProtocol)

    def test_gives_back_all_four_fields(self, tmp_path: Path) -> None:
        """R10: step, state, tree and runtime metadata come back as they were."""
        with self.opened(tmp_path) as checkpointer:
            saved = save(checkpointer, "t", 3)
            assert same(load(checkpointer.get_checkpoint("t")), saved)

    def test_omitted_fields_have_defaults(self, tmp_path: Path) -> None:
        """R10: without a tree it is None, which is not an empty one; without metadata it is empty."""
        with self.opened(tmp_path) as checkpointer:
            checkpointer.save_checkpoint("t", 1, {"a": 1})
            assert load(checkpointer.get_checkpoint("t")) == _envelope(1, {"a": 1}, None, {})
            checkpointer.save_checkpoint("t", 2, {}, {}, {})
            assert load(checkpointer.get_checkpoint("t")) == _envelope(2, {}, {}, {})
            checkpointer.save_checkpoint("t", 3, {}, tree_state={"root": "FAILURE"})
            assert load(checkpointer.get_checkpoint("t")) == _envelope(3, {}, {"root": "FAILURE"}, {})
            checkpointer.save_checkpoint("t", 4, {}, runtime_metadata={"k": 1})
            assert load(checkpointer.get_checkpoint("t")) == _envelope(4, {}, None, {"k": 1})

    def test_an_unknown_thread_has_none(self, tmp_path: Path) -> None:
        """R6: None, before the first save and beside other threads."""
        with self.opened(tmp_path) as checkpointer:
            assert checkpointer.get_checkpoint("t") is None
            save(checkpointer, "other", 1)
            assert checkpointer.get_checkpoint("t") is None

    def test_any_json_value_comes_back(self, tmp_path: Path) -> None:
        """R44: values of every JSON type, at their limits, keep value, type and order."""
        state: dict[str, Any] = {
            "numbers": [0, 1, 1.0, True, -0.0, 0.1, 5e-324, 1.7976931348623157e308, 2**63, 2**64 - 1, -(2**63)],
            "nothing": [None, "", [], {}, [[]], {"": None}],
            "text": [
                "\x00\x01\x7f",
                '"\\/\b\f\n\r\t',
                "\u2028\u2029\ufeff",
                "木🎉👩‍👩‍👧𠀀",
                "<script>%s{}",
                "e\u0301é",
            ],
            "z": 1,
            "a": {"y": {"x": {"w": [{"v": []}]}}, "$jianmu": ["set", [1]], "木": "tree", "a.b": 1, "": 2},
            "deep": _nested(100),
        }
        metadata = {"journal": {"a": [1, None]}, "step": "mine", "state": 3}
        tree = {"root": "RUNNING", "root/问[0]": "SUCCESS", "": "INVALID", "root/a/b": "FAILURE"}
        with self.opened(tmp_path) as checkpointer:
            checkpointer.save_checkpoint("t", 7, state, tree, metadata)
            assert same(load(checkpointer.get_checkpoint("t")), _envelope(7, state, tree, metadata))

    def test_any_step_comes_back(self, tmp_path: Path) -> None:
        """R8: steps are whole numbers of any usual size."""
        with self.opened(tmp_path) as checkpointer:
            for step in (0, 1, 1000, 2**31, 2**53 + 1):
                checkpointer.save_checkpoint("t", step, {"n": step})
                assert load(checkpointer.get_checkpoint("t"))["step"] == step

    def test_a_big_state_comes_back(self, tmp_path: Path) -> None:
        """R13: megabytes in one text and thousands of items in one list."""
        state: dict[str, Any] = {"text": "木a" * 500_000, "items": [{"n": n} for n in range(10_000)]}
        with self.opened(tmp_path) as checkpointer:
            for step in (1, 2):
                state["items"].append({"n": -step})
                checkpointer.save_checkpoint("t", step, state)
            assert same(load(checkpointer.get_checkpoint("t"))["state"], state)

    # -- one thread -----------------------------------------------------------------------------------------------

    def test_the_last_saved_wins(self, tmp_path: Path) -> None:
        """R6: each save replaces the one before as the newest."""
        with self.opened(tmp_path) as checkpointer:
            for step in range(1, 12):
                saved = save(checkpointer, "t", step)
                assert same(load(checkpointer.get_checkpoint("t")), saved)

    def test_a_rewound_thread_goes_on_from_what_was_saved_last(self, tmp_path: Path) -> None:
        """R8: the order of saves counts, not the number of the step; a step may be saved again."""
        with self.opened(tmp_path) as checkpointer:
            for step in (1, 2, 9, 3, 3, 0, 1):
                saved = save(checkpointer, "t", step, mark=step)
                assert same(load(checkpointer.get_checkpoint("t")), saved)

    def test_whatever_changed_comes_back(self, tmp_path: Path) -> None:
        """R7: fields that appear, vanish, grow, shrink, change type or order between saves are read as saved last."""
        for number, history in enumerate([_RETYPED, *(_history(random.Random(seed)) for seed in range(4))]):  # noqa: S311
            with self.opened(tmp_path) as checkpointer:
                for step, state in enumerate(history):
                    checkpointer.save_checkpoint(f"t{number}", step, state, {"root": str(step)}, {"seen": state})
                    expected = _envelope(step, state, {"root": str(step)}, {"seen": state})
                    assert same(load(checkpointer.get_checkpoint(f"t{number}")), expected)

    def test_what_is_saved_is_a_copy(self, tmp_path: Path) -> None:
        """R17: what the caller changes after a save is not in it, and the next save has the change."""
        state: dict[str, Any] = {"messages": [{"content": "a", "tags": ["x"]}], "profile": {"name": "木"}}
        tree, metadata = {"root": "RUNNING"}, {"seen": [1]}
        with self.opened(tmp_path) as checkpointer:
            checkpointer.save_checkpoint("t", 1, state, tree, metadata)
            state["messages"][0]["tags"].append("y")
            state["messages"].append({"content": "b", "tags": []})
            state["profile"]["name"] = state["new"] = "changed"
            tree["root"] = "SUCCESS"
            metadata["seen"].append(2)
            first = {"messages": [{"content": "a", "tags": ["x"]}], "profile": {"name": "木"}}
            assert load(checkpointer.get_checkpoint("t")) == _envelope(1, first, {"root": "RUNNING"}, {"seen": [1]})
            checkpointer.save_checkpoint("t", 2, state, tree, metadata)
            assert load(checkpointer.get_checkpoint("t")) == _envelope(2, state, tree, metadata)

    def test_what_is_read_belongs_to_the_caller(self, tmp_path: Path) -> None:
        """R17: changing what was read changes neither what is stored nor what is saved next."""
        with self.opened(tmp_path) as checkpointer:
            saved = save(checkpointer, "t", 3)
            read = checkpointer.get_checkpoint("t")
            read["state"]["messages"].append("changed")
            read["state"]["messages"][0]["content"] = read["tree"]["root"] = read["step"] = "changed"
            read["runtime_metadata"]["seen"].clear()
            assert same(load(checkpointer.get_checkpoint("t")), saved)
            after = save(checkpointer, "t", 4)
            assert same(load(checkpointer.get_checkpoint("t")), after)

    def test_another_session_goes_on(self, tmp_path: Path) -> None:
        """R7: whoever opens the same place finds the thread and saves on; both see the last save."""
        if not self.persistent:
            return
        with self.opened(tmp_path) as first:
            saved = save(first, "t", 1)
        with self.opened(tmp_path) as second, self.opened(tmp_path) as third:
            assert same(load(second.get_checkpoint("t")), saved)
            for step in range(2, 8):
                writer, reader = (second, third) if step % 2 else (third, second)
                saved = save(writer, "t", step)
                assert same(load(reader.get_checkpoint("t")), saved)

    # -- many threads ---------------------------------------------------------------------------------------------

    def test_threads_never_mix(self, tmp_path: Path) -> None:
        """R14: whatever its name is, a thread has its own checkpoints; none is taken for a path, pattern or query."""
        with self.opened(tmp_path) as checkpointer:
            for number, thread_id in enumerate(HOSTILE_THREAD_IDS):
                assert checkpointer.get_checkpoint(thread_id) is None, repr(thread_id)
                checkpointer.save_checkpoint(thread_id, number, {"name": thread_id})
            for number, thread_id in enumerate(HOSTILE_THREAD_IDS):
                found = load(checkpointer.get_checkpoint(thread_id))
                assert found == _envelope(number, {"name": thread_id}, None, {}), repr(thread_id)

    def test_many_threads(self, tmp_path: Path) -> None:
        """R7: hundreds of threads saved in turns, each with its own newest checkpoint."""
        names = [f"thread-{number}" for number in range(150)]
        with self.opened(tmp_path) as checkpointer:
            for step in (1, 2):
                for name in names:
                    checkpointer.save_checkpoint(name, step, {"is": [name, step]})
            assert [load(checkpointer.get_checkpoint(name))["state"]["is"] for name in names] == [[n, 2] for n in names]

    # -- several writers ------------------------------------------------------------------------------------------

    def test_writers_of_one_thread_leave_whole_checkpoints(self, tmp_path: Path) -> None:
        """R15: whatever is read meanwhile was saved by one writer as a whole, and nobody's own saves go back."""
        with self.opened(tmp_path) as checkpointer:
            torn: list[Envelope] = []
            start = threading.Barrier(4)

            def work(writer: int) -> None:
                start.wait(30)
                for step in range(1, 16):
                    _save_signed(checkpointer, writer, step)
                    found = load(checkpointer.get_checkpoint("t"))
                    if not _is_whole(found):
                        torn.append(found)

            _in_threads(work, 4)
            assert torn == []
            found = load(checkpointer.get_checkpoint("t"))
            assert found["step"] == 15, "the last save of one of the writers is the newest"
            last = save(checkpointer, "t", 99)
            assert same(load(checkpointer.get_checkpoint("t")), last)

    def test_writers_of_many_threads_lose_nothing(self, tmp_path: Path) -> None:
        """R15: each thread reads back its own last save, at every moment."""
        with self.opened(tmp_path) as checkpointer:
            lost: list[str] = []

            def work(writer: int) -> None:
                for step in range(1, 16):
                    saved = save(checkpointer, f"t{writer}", step, mark=writer)
                    if not same(load(checkpointer.get_checkpoint(f"t{writer}")), saved):
                        lost.append(f"writer {writer}, step {step}")

            _in_threads(work, 4)
            assert lost == []

    # -- failures -------------------------------------------------------------------------------------------------

    def test_a_value_that_can_not_be_stored_changes_nothing(self, tmp_path: Path) -> None:
        """R18: the error names thread, step and the value's path; the previous checkpoint is still the newest."""
        for bad in (_unstorable(), {"notes": [1, {"body": _unstorable()}]}):
            with self.opened(tmp_path) as checkpointer:
                saved = save(checkpointer, "thread-9", 41)
                error = refuses(
                    CheckpointSaveError, lambda bad=bad: checkpointer.save_checkpoint("thread-9", 4242, {"top": bad})
                )
                path = "state.top" if not isinstance(bad, dict) else "state.top.notes[1].body"
                assert all(part in str(error) for part in ("thread-9", "4242", path)), str(error)
                assert same(load(checkpointer.get_checkpoint("thread-9")), saved)
                refuses(CheckpointSaveError, lambda: checkpointer.save_checkpoint("new", 1, {"a": _unstorable()}))
                assert checkpointer.get_checkpoint("new") is None
                after = save(checkpointer, "thread-9", 42)
                assert same(load(checkpointer.get_checkpoint("thread-9")), after)

    def test_a_value_comes_back_equal_or_is_refused(self, tmp_path: Path) -> None:
        """R18: what JSON can not hold is never changed silently, wherever it stands and whatever stood there before."""
        with self.opened(tmp_path) as checkpointer:
            for number, value in enumerate(_DOUBTFUL):
                for place in ({"v": value}, {"v": [0, {"w": value}]}):
                    _equal_or_refused(checkpointer, f"{number}", place, None)
                    _equal_or_refused(checkpointer, f"{number}", {}, place)

    def test_foreign_data_is_no_checkpoint(self, tmp_path: Path) -> None:
        """R11: a stored value of another layout gives None, no error; unknown fields beside the known ones are kept."""
        for number, stored in enumerate(_FOREIGN):
            if not self.write_raw(tmp_path, f"t{number}", stored):
                return
            with self.opened(tmp_path) as checkpointer:
                assert checkpointer.get_checkpoint(f"t{number}") is None, stored
        self.write_raw(tmp_path, "newer", {"step": 5, "state": {"a": 1}, "added": {"later": [1]}})
        with self.opened(tmp_path) as checkpointer:
            found = checkpointer.get_checkpoint("newer")
            assert load(found) == _envelope(5, {"a": 1}, None, {})
            assert found["added"] == {"later": [1]}


def checkpointer_contract(
    open: Callable[[Path], CheckpointerProtocol],  # noqa: A002
    folder: Path | None = None,
    *,
    persistent: bool = True,
) -> None:
    """Check every law of `CheckpointerContract` in one call, in any test framework or none.

    Args:
        open: opens the checkpointer that belongs to a folder; opening it again must find what was saved there.
        folder: where to make one sub-folder for each law; by default a temporary one that is removed at the end.
        persistent: False for a backend that lives in memory.

    Raises:
        ExceptionGroup: the laws that are broken, each failure with a note that names its law.

    Example:
        >>> from jianmu.memory.checkpoint import FileCheckpointer
        >>> checkpointer_contract(FileCheckpointer)
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return checkpointer_contract(open, Path(temporary), persistent=persistent)
    suite = _suite_over(open, persistent)
    failures: list[Exception] = []
    for law in sorted(name for name in dir(suite) if name.startswith("test_")):
        place = folder / law
        place.mkdir(parents=True)
        try:
            getattr(suite, law)(place)
        except Exception as error:
            error.add_note(f"the broken law is {law}: {getattr(suite, law).__doc__}")
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} laws of the checkpointer contract are broken", failures)
    return None


def _suite_over(opener: Callable[[Path], CheckpointerProtocol], is_persistent: bool) -> CheckpointerContract:
    class Suite(CheckpointerContract):
        persistent = is_persistent

        def open(self, folder: Path) -> CheckpointerProtocol:
            return opener(folder)

    return Suite()


def _envelope(step: int, state: Any, tree: Any, metadata: Any) -> Envelope:
    return {"step": step, "state": state, "tree": tree, "runtime_metadata": metadata}


def _nested(depth: int) -> Any:
    value: Any = "bottom"
    for level in range(depth):
        value = [value] if level % 2 else {"in": value}
    return value


def _unstorable() -> Any:
    return (number for number in ())


def _equal_or_refused(checkpointer: Any, thread_id: str, state: dict[str, Any], metadata: Any) -> None:
    try:
        checkpointer.save_checkpoint(thread_id, 2, state, None, metadata)
    except CheckpointSaveError:
        return
    found = load(checkpointer.get_checkpoint(thread_id))
    expected = _envelope(2, state, None, metadata or {})
    assert same(found, expected), f"saved {expected!r}, read {found!r}"


def _history(dice: random.Random) -> Iterator[dict[str, Any]]:
    """Make a state that changes from save to save in all the ways a state can."""
    state: dict[str, Any] = {"messages": [], "profile": {"name": "木"}, "count": 0}
    values = [*_ALIKE, {"a": 1}, {"a": [1]}, "text"]
    for step in range(25):
        state = _copied(state)
        for _ in range(dice.randint(1, 3)):
            _change(state, dice, values, step)
        yield state


def _change(state: dict[str, Any], dice: random.Random, values: list[Any], step: int) -> None:
    key = dice.choice(["messages", "profile", "count", "a", "b", "=", "+", "-", "/", ""])
    items: list[Any] | None = state[key] if isinstance(state.get(key), list) else None
    how = dice.randrange(6)
    if how == 0:
        state.pop(key, None)
    elif how == 1:
        state[key] = _copied(dice.choice(values))
    elif how == 2 and isinstance(state.get(key), dict):
        state[key][dice.choice("ab=+")] = _copied(dice.choice(values))
    elif how == 3 and items:
        items[dice.randrange(len(items))] = _copied(dice.choice(values))
    elif how == 4 and items:
        del items[dice.randrange(len(items)) :]
    elif items is not None:
        items.append({"role": "user", "content": f"message {step}"})
    elif how == 5:
        _turn_around(state)
    else:
        state[key] = [{"n": step}]


def _turn_around(state: dict[str, Any]) -> None:
    for key in reversed(list(state)):
        state[key] = state.pop(key)


def _copied(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


def _save_signed(checkpointer: Any, writer: int, step: int) -> None:
    sign = [writer, step]
    state = {"sign": sign, "messages": [{"sign": sign, "content": "x" * 100 * writer}] * step}
    checkpointer.save_checkpoint("t", step, state, {"root": f"{writer} {step}"}, {"sign": sign})


def _is_whole(envelope: Envelope) -> bool:
    state, (writer, step) = envelope["state"], envelope["runtime_metadata"]["sign"]
    signs = [state["sign"], *(message["sign"] for message in state["messages"])]
    return (
        all(sign == [writer, step] for sign in signs)
        and len(state["messages"]) == envelope["step"] == step
        and envelope["tree"] == {"root": f"{writer} {step}"}
    )


def _in_threads(work: Callable[[int], None], count: int) -> None:
    with ThreadPoolExecutor(count) as pool:
        for outcome in [pool.submit(work, number) for number in range(count)]:
            outcome.result()

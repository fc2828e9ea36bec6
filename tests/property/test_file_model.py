"""Whatever is done to it, FileCheckpointer answers as a checkpointer in memory does."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from jianmu.errors import CheckpointNotFoundError, CheckpointSaveError
from jianmu.memory import FileCheckpointer, InMemoryCheckpointer
from jianmu.serialization import same

THREADS = st.sampled_from(["a", "A", "a.jsonl", "会话", "../a", "x" * 200])
STEPS = st.integers(0, 5)
ATOMS = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.0, -0.0, 1.0]), st.text(max_size=3))
DATA = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)
GROWN = st.builds(lambda length: {"messages": [{"n": n} for n in range(length)]}, st.integers(0, 6))
STATES = st.dictionaries(st.text(max_size=2), DATA, max_size=3) | GROWN
TREES = st.none() | st.just({"root": "RUNNING"})
TAILS = st.sampled_from([b"{", b"\n", b'{"step": 1, "state": {', b"\x00\x00", b"\xff", b"[1, 2", b"  \n "])


class Files(RuleBasedStateMachine):
    """Two checkpointers on one folder, either of which does each thing, beside one in memory."""

    @initialize()
    def begin(self) -> None:
        self.place = tempfile.TemporaryDirectory()
        self.folder = Path(self.place.name) / "checkpoints"
        self.files = [FileCheckpointer(self.folder, fsync=False) for _ in range(2)]
        self.model = InMemoryCheckpointer()
        self.used: set[str] = set()

    def teardown(self) -> None:
        self.place.cleanup()

    def both(self, which: int, what: str, *args: Any, **named: Any) -> None:
        """Do the same to both; the answers, also errors, must agree."""

        def answer(checkpointer: Any) -> Any:
            try:
                return getattr(checkpointer, what)(*args, **named)
            except (CheckpointNotFoundError, CheckpointSaveError) as error:
                return type(error)

        assert answer(self.files[which]) == answer(self.model)

    @rule(
        which=st.integers(0, 1), thread=THREADS, step=STEPS, state=STATES, tree=st.none() | st.just({"root": "RUNNING"})
    )
    def save(self, which: int, thread: str, step: int, state: Any, tree: Any) -> None:
        self.used.add(thread)
        self.both(which, "save_checkpoint", thread, step, state, tree, {"seen": [step]})

    @rule(which=st.integers(0, 1), thread=THREADS, step=STEPS, value=st.sampled_from([(1,), {1}, float("nan"), 2**64]))
    def save_what_can_not_be_stored(self, which: int, thread: str, step: int, value: Any) -> None:
        with pytest.raises(CheckpointSaveError):
            self.files[which].save_checkpoint(thread, step, {"messages": [{"n": 0}, value]})

    @rule(which=st.integers(0, 1), thread=THREADS, step=STEPS, new=THREADS)
    def fork(self, which: int, thread: str, step: int, new: str) -> None:
        self.used.add(new)
        self.both(which, "fork", thread, step, new)

    @rule(which=st.integers(0, 1), thread=THREADS)
    def delete(self, which: int, thread: str) -> None:
        self.both(which, "delete_thread", thread)

    @rule(which=st.integers(0, 1), thread=THREADS, keep=st.integers(1, 4))
    def prune(self, which: int, thread: str, keep: int) -> None:
        self.both(which, "prune", thread, keep_last=keep)

    @rule(which=st.integers(0, 1), thread=THREADS, hours=st.integers(-1, 1).filter(bool))
    def prune_by_age(self, which: int, thread: str, hours: int) -> None:
        self.both(which, "prune", thread, older_than=datetime.now(UTC) + timedelta(hours=hours))

    @rule(thread=THREADS, tail=TAILS)
    def crash(self, thread: str, tail: bytes) -> None:
        """Leave an unfinished line behind, where there are whole ones."""
        for path in self.folder.glob("*.jsonl"):
            if path.stat().st_size and self.model.get_checkpoint(thread) is not None:
                with path.open("ab") as file:
                    file.write(tail)

    @rule(which=st.integers(0, 1))
    def restart(self, which: int) -> None:
        self.files[which] = FileCheckpointer(self.folder, fsync=False)

    @rule(which=st.integers(0, 1), thread=THREADS)
    def lock(self, which: int, thread: str) -> None:
        with self.files[which].lock(thread), self.model.lock(thread):
            self.used.add(thread)
            self.files[which].save_checkpoint(thread, 3, {"locked": True})
            self.model.save_checkpoint(thread, 3, {"locked": True})

    @rule(thread=THREADS, limit=st.none() | st.integers(0, 3), before=st.none() | STEPS)
    def listing(self, thread: str, limit: Any, before: Any) -> None:
        listed = [
            [(info.thread_id, info.step) for info in one.list_checkpoints(thread, limit=limit, before=before)]
            for one in (*self.files, self.model)
        ]
        assert listed[0] == listed[1] == listed[2]

    @invariant()
    def knows_the_same(self) -> None:
        if not hasattr(self, "model"):
            return
        for checkpointer in self.files:
            assert checkpointer.list_threads() == self.model.list_threads()
            for thread in self.used:
                assert same(checkpointer.get_checkpoint(thread), self.model.get_checkpoint(thread))
                for step in range(6):
                    assert same(
                        checkpointer.get_checkpoint_at(thread, step), self.model.get_checkpoint_at(thread, step)
                    )


@pytest.mark.parametrize("examples", [15, pytest.param(500, marks=pytest.mark.proof)])
def test_files_agree_with_memory(examples: int) -> None:
    """R7 R12 R13 R14 R18: after any sequence of saves, forks, prunes, crashes and restarts."""
    run_state_machine_as_test(Files, settings=settings(max_examples=examples, stateful_step_count=30, deadline=None))


def test_the_lines_are_what_was_saved(tmp_path: Path) -> None:
    """R12: read without Jianmu, each line has the four fields and the time of the save."""
    FileCheckpointer(tmp_path).save_checkpoint("t", 1, {"a": 1})
    line = orjson.loads((tmp_path / "t.jsonl").read_bytes())
    assert abs(datetime.now(UTC) - datetime.fromisoformat(line.pop("saved_at"))) < timedelta(minutes=1)
    assert line == {"step": 1, "state": {"a": 1}, "tree": None, "runtime_metadata": {}}

"""FileCheckpointer: what stands in its folder, and what it reads of it."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from jianmu.errors import (
    CheckpointLoadError,
    CheckpointSaveError,
    ConfigurationError,
    StaleWriterError,
    ThreadLockedError,
)
from jianmu.memory import FileCheckpointer
from jianmu.memory.checkpoint.file import checkpointer as module
from jianmu.state import StateManager


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


# ------------------------------------------------------------------ the folder


def test_one_line_a_save_in_one_file_a_thread(tmp_path: Path) -> None:
    """R12: JSON lines, appended; the folder is the first argument and made by the first save."""
    folder = tmp_path / "deep" / "checkpoints"
    checkpointer = FileCheckpointer(folder)
    assert not folder.exists()
    for step in (1, 2, 3):
        checkpointer.save_checkpoint("session-42", step, {"n": step}, {"root": "RUNNING"}, {"k": step})
    checkpointer.save_checkpoint("other", 1, {})
    assert sorted(path.name for path in folder.iterdir()) == ["other.jsonl", "session-42.jsonl"]
    stored = lines(folder / "session-42.jsonl")
    assert [line["step"] for line in stored] == [1, 2, 3]
    assert {key: stored[2][key] for key in ("step", "state", "tree", "runtime_metadata")} == {
        "step": 3,
        "state": {"n": 3},
        "tree": {"root": "RUNNING"},
        "runtime_metadata": {"k": 3},
    }


def test_the_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R12: .outputs/jianmu/checkpoints, and a later change of directory does not move it."""
    monkeypatch.chdir(tmp_path)
    checkpointer = FileCheckpointer()
    checkpointer.save_checkpoint("t", 1, {})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    checkpointer.save_checkpoint("t", 2, {})
    assert len(lines(tmp_path / ".outputs/jianmu/checkpoints/t.jsonl")) == 2


def test_a_new_process_finds_the_thread(tmp_path: Path) -> None:
    """R7: nothing but the folder and the thread id is needed."""
    FileCheckpointer(tmp_path).save_checkpoint("t", 7, {"a": "木"}, {"root": "RUNNING"}, {"k": 1})
    assert FileCheckpointer(str(tmp_path)).get_checkpoint("t") == {
        "step": 7,
        "state": {"a": "木"},
        "tree": {"root": "RUNNING"},
        "runtime_metadata": {"k": 1},
    }


def test_what_is_saved_is_private(tmp_path: Path) -> None:
    """A conversation is readable for its owner alone."""
    FileCheckpointer(tmp_path).save_checkpoint("t", 1, {})
    assert (tmp_path / "t.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("thread_id", ["", None, 7, b"t"])
def test_a_thread_needs_a_name(tmp_path: Path, thread_id: Any) -> None:
    """R14: an empty name, or none at all, is refused before anything is written."""
    checkpointer = FileCheckpointer(tmp_path)
    with pytest.raises(ConfigurationError, match="thread_id"):
        checkpointer.save_checkpoint(thread_id, 1, {})
    with pytest.raises(ConfigurationError, match="thread_id"):
        checkpointer.get_checkpoint(thread_id)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keep_last", [0, -1])
def test_keep_last_is_at_least_one(keep_last: int) -> None:
    with pytest.raises(ConfigurationError, match="keep_last"):
        FileCheckpointer(keep_last=keep_last)


# ------------------------------------------------------------------ reading


def test_reading_costs_the_same_after_many_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R13: however long the file is, only its end is read."""
    checkpointer = FileCheckpointer(tmp_path, fsync=False)
    read: list[int] = []

    def costs() -> int:
        read.clear()
        assert checkpointer.get_checkpoint("t") is not None
        return sum(read)

    class Counting(type(tmp_path)):  # type: ignore[misc]
        def open(self, *args: Any, **named: Any) -> Any:
            file = super().open(*args, **named)
            return _Counter(file, read)

    class _Counter:
        def __init__(self, file: Any, read: list[int]) -> None:
            self.file, self.counts, self.seek = file, read, file.seek

        def read(self, size: int) -> bytes:
            found = self.file.read(size)
            self.counts.append(len(found))
            return found

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *error: object) -> None:
            self.file.close()

    monkeypatch.setattr(module, "Path", Counting)
    checkpointer = FileCheckpointer(tmp_path, fsync=False)
    for step in range(2000):
        checkpointer.save_checkpoint("t", step, {"text": "x" * 100})
    assert (tmp_path / "t.jsonl").stat().st_size > 300_000
    assert costs() <= 65536


def test_a_line_of_many_megabytes(tmp_path: Path) -> None:
    """R13: a line that is longer than a block is read whole, before and behind others."""
    checkpointer = FileCheckpointer(tmp_path, fsync=False)
    sizes = [10, 65_535, 65_536, 65_537, 131_072, 5_000_000, 3]
    for step, size in enumerate(sizes):
        checkpointer.save_checkpoint("t", step, {"text": "木" * size})
        assert checkpointer.get_checkpoint("t")["state"] == {"text": "木" * size}
    for step, size in enumerate(sizes):
        assert checkpointer.get_checkpoint_at("t", step)["state"] == {"text": "木" * size}


def test_the_newest_parseable_line_wins(tmp_path: Path) -> None:
    """R13: whatever a crash or a loss of power left behind it is skipped, blank lines too."""
    checkpointer = FileCheckpointer(tmp_path)
    checkpointer.save_checkpoint("t", 1, {"a": 1})
    path = tmp_path / "t.jsonl"
    whole = path.read_bytes()
    for tail in (
        b"\n",
        b"{",
        b'{"step": 2, "state"',
        b"\x00" * 5000,
        b"\n\n \n",
        b"garbage\n{]\n",
        b"\xff\xfe\n",
        b"[" * 9999,
    ):
        path.write_bytes(whole + tail)
        assert checkpointer.get_checkpoint("t")["step"] == 1, tail
        checkpointer.save_checkpoint("t", 2, {"b": 2})
        assert checkpointer.get_checkpoint("t")["state"] == {"b": 2}, tail
        assert [info.step for info in checkpointer.list_checkpoints("t")] == [2, 1]


def test_a_parseable_last_line_of_another_layout_gives_none(tmp_path: Path) -> None:
    """R11 R13: it is not skipped, and no exception."""
    checkpointer = FileCheckpointer(tmp_path)
    checkpointer.save_checkpoint("t", 1, {"a": 1})
    with (tmp_path / "t.jsonl").open("ab") as file:
        file.write(b'{"payload": {"step": 2, "state": {}}}\n')
    assert checkpointer.get_checkpoint("t") is None
    assert [info.step for info in checkpointer.list_checkpoints("t")] == [1]
    checkpointer.save_checkpoint("t", 2, {})
    assert checkpointer.get_checkpoint("t")["step"] == 2


def test_a_file_without_checkpoints_has_none(tmp_path: Path) -> None:
    """R13: an empty file, or one with nothing but unfinished lines."""
    checkpointer = FileCheckpointer(tmp_path)
    for content in (b"", b"\n", b'{"step"', b"\x00"):
        (tmp_path / "t.jsonl").write_bytes(content)
        assert checkpointer.get_checkpoint("t") is None
        assert checkpointer.list_checkpoints("t") == []
        assert not checkpointer.prune("t", keep_last=1)
    checkpointer.save_checkpoint("s", 1, {"a": 1})
    checkpointer.fork("s", 1, "t")
    assert checkpointer.get_checkpoint("t")["state"] == {"a": 1}


def test_lines_of_other_programs(tmp_path: Path) -> None:
    """R11: spaces, other line ends, escapes, NaN, unknown fields and no time of saving are all readable."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(
        b'{"state": {"a": "\\u6728"}, "step": 1}\r\n'
        b'{ "step" : 2 , "state" : { "n" : NaN , "s": "\\ud800" } , "added" : [1] , "saved_at": "once" }'
    )
    checkpointer = FileCheckpointer(tmp_path)
    newest = checkpointer.get_checkpoint("t")
    assert (newest["added"], newest["tree"], newest["runtime_metadata"]) == ([1], None, {})
    assert newest["state"]["s"] == "\ud800"
    assert newest["state"]["n"] != newest["state"]["n"]
    assert checkpointer.get_checkpoint_at("t", 1)["state"] == {"a": "木"}
    assert [info.created_at for info in checkpointer.list_checkpoints("t")] == [None, None]
    checkpointer.save_checkpoint("t", 3, {})
    assert checkpointer.list_checkpoints("t")[0].created_at is not None
    assert path.read_bytes().count(b"\n") == 3
    assert checkpointer.prune("t", older_than=timedelta(hours=1)) == 0, "nobody knows that they are that old"
    assert checkpointer.prune("t", older_than=datetime.now(UTC) + timedelta(hours=1)) == 2


def test_files_of_others_are_no_threads(tmp_path: Path) -> None:
    """R14: what no thread id can have made is not listed."""
    checkpointer = FileCheckpointer(tmp_path)
    assert FileCheckpointer(tmp_path / "missing").list_threads() == []
    checkpointer.save_checkpoint("t", 1, {})
    checkpointer.save_checkpoint("x" * 500, 1, {})
    for name in ("Notes.jsonl", "a b.jsonl", "%zz.jsonl", ".jsonl", "a%2F.jsonl", "t.txt", "x++0.jsonl", "%ff.jsonl"):
        (tmp_path / name).write_text('{"step": 1, "state": {}}\n')
    (tmp_path / "empty.jsonl").touch()
    assert checkpointer.list_threads() == ["t", "x" * 500]


def test_a_damaged_place_is_an_error_not_an_empty_thread(tmp_path: Path) -> None:
    """R18: None would mean that there is nothing, and a new run would begin."""
    (tmp_path / "t.jsonl").mkdir()
    (tmp_path / "file").touch()
    checkpointer = FileCheckpointer(tmp_path)
    for read in (lambda: checkpointer.get_checkpoint("t"), lambda: checkpointer.list_checkpoints("t")):
        with pytest.raises(CheckpointLoadError, match=r"thread 't'.*can not be read"):
            read()
    with pytest.raises(CheckpointLoadError, match="can not be read"):
        FileCheckpointer(tmp_path / "file").list_threads()


# ------------------------------------------------------------------ writing


def test_keep_last_shortens_a_file_that_is_twice_as_long(tmp_path: Path) -> None:
    """R16: never more than twice as many lines, then again as many as asked for."""
    checkpointer = FileCheckpointer(tmp_path, keep_last=3)
    counts = []
    for step in range(1, 15):
        checkpointer.save_checkpoint("t", step, {"n": step})
        counts.append([line["step"] for line in lines(tmp_path / "t.jsonl")])
    assert [len(steps) for steps in counts] == [1, 2, 3, 4, 5, 6, 3, 4, 5, 6, 3, 4, 5, 6]
    assert counts[6] == [5, 6, 7]
    assert list(tmp_path.iterdir()) == [tmp_path / "t.jsonl"]


def test_keep_last_counts_what_others_wrote(tmp_path: Path) -> None:
    """R16: also lines of other writers and unfinished ones are counted; what is kept are checkpoints."""
    keeping, other = FileCheckpointer(tmp_path, keep_last=2), FileCheckpointer(tmp_path)
    keeping.save_checkpoint("t", 1, {})
    for step in (2, 3, 4, 5, 6):
        other.save_checkpoint("t", step, {"n": step})
    with (tmp_path / "t.jsonl").open("ab") as file:
        file.write(b"torn")
    keeping.save_checkpoint("t", 7, {"n": 7})
    assert [line["step"] for line in lines(tmp_path / "t.jsonl")] == [6, 7]
    other.save_checkpoint("t", 8, {})
    assert [line["step"] for line in lines(tmp_path / "t.jsonl")] == [6, 7, 8]


def test_a_file_that_can_not_be_shortened_is_saved_to(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """R16: what was saved is saved; the file is made shorter once that is possible."""
    checkpointer = FileCheckpointer(tmp_path, keep_last=1)
    draft = tmp_path / ".t.jsonl.draft"
    draft.mkdir()
    for step in range(5):
        checkpointer.save_checkpoint("t", step, {})
    assert [line["step"] for line in lines(tmp_path / "t.jsonl")] == [0, 1, 2, 3, 4]
    assert "could not shorten" in caplog.text
    draft.rmdir()
    checkpointer.save_checkpoint("t", 5, {})
    assert [line["step"] for line in lines(tmp_path / "t.jsonl")] == [5]


@pytest.mark.parametrize("how", ["deleted", "replaced", "moved", "emptied"])
def test_a_file_that_somebody_changed_meanwhile(tmp_path: Path, how: str) -> None:
    """R15: the file stays open between saves, but what counts is what the name stands for."""
    checkpointer = FileCheckpointer(tmp_path)
    checkpointer.save_checkpoint("t", 1, {})
    path = tmp_path / "t.jsonl"
    if how == "deleted":
        path.unlink()
    elif how == "replaced":
        (tmp_path / "new").write_bytes(path.read_bytes())
        (tmp_path / "new").replace(path)
    elif how == "moved":
        path.rename(tmp_path / "backup")
    else:
        os.truncate(path, 0)
    checkpointer.save_checkpoint("t", 2, {"a": 2})
    assert [line["step"] for line in lines(path)] == ([1, 2] if how == "replaced" else [2])
    assert FileCheckpointer(tmp_path).get_checkpoint("t")["state"] == {"a": 2}


def test_few_files_stay_open(tmp_path: Path) -> None:
    """A checkpointer of thousands of threads does not run out of file descriptors, and gives all back in the end."""

    def opened() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    before = opened()
    checkpointer = FileCheckpointer(tmp_path, fsync=False)
    for step in (1, 2):
        for number in range(300):
            checkpointer.save_checkpoint(f"t{number}", step, {"n": number})
    assert opened() <= before + 65
    checkpointer.close()
    assert opened() == before
    checkpointer.save_checkpoint("t1", 3, {})
    assert opened() == before + 1
    del checkpointer
    assert opened() == before


def test_a_state_dump_is_not_looked_through_and_anything_else_is(tmp_path: Path) -> None:
    """R18: the state manager has checked its values; a caller's dict is checked at every save, wherever it changed."""

    class Chat(BaseModel):
        notes: list[str] = []
        pair: tuple[int, ...] = (1, 2)

    manager = StateManager(Chat)
    manager.initialize({"notes": ["木"]})
    checkpointer = FileCheckpointer(tmp_path)
    checkpointer.save_checkpoint("t", 1, manager.dump_checkpoint())
    other = StateManager(Chat)
    other.initialize(checkpointer.get_checkpoint("t")["state"])
    assert other.get("pair") == (1, 2)
    state: dict[str, Any] = {"items": [{"pair": [1, 2]}]}
    checkpointer.save_checkpoint("t", 2, state)
    state["items"][0]["pair"] = (1, 2)
    with pytest.raises(CheckpointSaveError, match=r"state\.items\[0\]\.pair: tuple is no JSON data"):
        checkpointer.save_checkpoint("t", 3, state)
    assert checkpointer.get_checkpoint("t")["step"] == 2


@pytest.mark.parametrize("step", ["1", 1.0, None, True, 2**64])
def test_a_step_is_a_whole_number(tmp_path: Path, step: Any) -> None:
    """R10: a checkpoint that could not be read again is not written."""
    with pytest.raises(CheckpointSaveError, match="step"):
        FileCheckpointer(tmp_path).save_checkpoint("t", step, {})
    assert FileCheckpointer(tmp_path).get_checkpoint("t") is None


# ------------------------------------------------------------------ locks


def test_a_lock_stands_beside_the_file_and_goes_with_the_thread(tmp_path: Path) -> None:
    """R15: a thread that nobody ever locked has one file; a deleted one has none."""
    checkpointer = FileCheckpointer(tmp_path)
    with checkpointer.lock("t"):
        checkpointer.save_checkpoint("t", 1, {})
    assert {path.name for path in tmp_path.iterdir()} == {"t.jsonl", "t.lock", "t.token"}
    assert checkpointer.list_threads() == ["t"]
    assert checkpointer.delete_thread("t")
    assert list(tmp_path.iterdir()) == []


def test_a_deleted_thread_leaves_no_draft(tmp_path: Path) -> None:
    """R16: what a writer that was killed while it made a file shorter left behind goes too."""
    checkpointer = FileCheckpointer(tmp_path)
    checkpointer.save_checkpoint("t", 1, {})
    (tmp_path / ".t.jsonl.draft").write_text("a part")
    assert checkpointer.delete_thread("t")
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_checkpoint_is_forked_whole_or_not_at_all(tmp_path: Path) -> None:
    """R18: what another program wrote and JSON can not hold is refused, with its path."""
    (tmp_path / "t.jsonl").write_text('{"step": 1, "state": {"a": [NaN]}, "later": 5}\n')
    checkpointer = FileCheckpointer(tmp_path)
    with pytest.raises(CheckpointSaveError, match=r"thread 'new', step 1: state\.a\[0\]"):
        checkpointer.fork("t", 1, "new")
    assert checkpointer.list_threads() == ["t"]
    (tmp_path / "t.jsonl").write_text('{"step": 1, "state": {"a": [1]}, "later": 5}\n')
    checkpointer.fork("t", 1, "new")
    assert checkpointer.get_checkpoint("new")["later"] == 5


def test_a_lock_names_its_holder(tmp_path: Path) -> None:
    """R15: the error says which process to wait for or to stop."""
    with FileCheckpointer(tmp_path).lock("t"), pytest.raises(ThreadLockedError, match=rf"'t'.*process {os.getpid()}\b"):
        FileCheckpointer(tmp_path).save_checkpoint("t", 1, {})


def test_who_lost_the_lock_is_refused(tmp_path: Path) -> None:
    """R15: when a lock was removed by hand and another one took the thread, saves of the first are refused."""
    first, second = FileCheckpointer(tmp_path), FileCheckpointer(tmp_path)
    with first.lock("t") as lease:
        first.save_checkpoint("t", 1, {})
        (tmp_path / "t.lock").unlink()
        with second.lock("t") as newer:
            assert newer.token > lease.token
            second.save_checkpoint("t", 2, {"by": "second"})
            with pytest.raises(StaleWriterError, match="'t'"):
                first.save_checkpoint("t", 3, {"by": "first"})
        with pytest.raises(StaleWriterError):
            first.save_checkpoint("t", 3, {"by": "first"})
    assert first.get_checkpoint("t")["state"] == {"by": "second"}


def test_a_damaged_token_is_no_obstacle(tmp_path: Path) -> None:
    """R15: after a loss of power the number may be unreadable; nobody who held the thread lives any more."""
    checkpointer = FileCheckpointer(tmp_path)
    with checkpointer.lock("t") as lease:
        pass
    for content in (b"", b"\x00\x00", b"[]", b"7", b"x 1"):
        (tmp_path / "t.token").write_bytes(content)
        with checkpointer.lock("t") as newer:
            assert newer.token > lease.token


def test_a_lock_that_can_not_be_made_is_a_clear_error(tmp_path: Path) -> None:
    """R18: the folder is missing and can not be made."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(CheckpointSaveError, match=r"thread 't'.*can not be locked"),
        FileCheckpointer(tmp_path / "file" / "folder").lock("t"),
    ):
        pass


def test_orjson_lines_are_plain_json(tmp_path: Path) -> None:
    """R12: any JSON reader reads them, one document a line, in UTF-8."""
    checkpointer = FileCheckpointer(tmp_path)
    checkpointer.save_checkpoint("t", 1, {"text": "木\n\u2028\x00🎉"})
    (line,) = (tmp_path / "t.jsonl").read_bytes().splitlines()
    assert json.loads(line)["state"] == orjson.loads(line)["state"] == {"text": "木\n\u2028\x00🎉"}

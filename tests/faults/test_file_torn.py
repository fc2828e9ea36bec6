"""Checkpoint files whose end a crash or a loss of power tore, at every byte."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jianmu.memory import FileCheckpointer

STATE = {"topic": 'tea "green"\n', "messages": [{"id": 1, "text": "木🎉\\"}], "n": -1.5e300, "none": None}
METADATA = {"nested": {"state": {"step": 9}}}


def save(folder: Path, step: int) -> dict[str, Any]:
    tree = {"root/问": "RUNNING"}
    FileCheckpointer(folder, fsync=False).save_checkpoint("t", step, STATE, tree, METADATA)
    return {"step": step, "state": STATE, "tree": tree, "runtime_metadata": METADATA}


def steps(folder: Path) -> list[int]:
    return [info.step for info in FileCheckpointer(folder).list_checkpoints("t")]


def check_goes_on(folder: Path, newest: dict[str, Any], known: list[int]) -> None:
    """The newest whole checkpoint is read, and the next save starts on a line of its own."""
    checkpointer = FileCheckpointer(folder)
    assert checkpointer.get_checkpoint("t") == newest
    assert checkpointer.list_threads() == ["t"]
    assert steps(folder) == known
    after = save(folder, 9)
    assert FileCheckpointer(folder).get_checkpoint("t") == after
    assert steps(folder) == [9, *known]
    assert checkpointer.get_checkpoint_at("t", newest["step"]) == newest


def test_a_tail_torn_at_every_byte(tmp_path: Path) -> None:
    """R13: with any part of the last line gone the one before it counts; without its line break it is whole."""
    saved = [save(tmp_path, step) for step in (1, 2, 3)]
    path = tmp_path / "t.jsonl"
    content = path.read_bytes()
    start = content.rindex(b"\n", 0, -1) + 1
    for stop in range(start, len(content)):
        path.write_bytes(content[:stop])
        whole = stop == len(content) - 1
        check_goes_on(tmp_path, saved[2 if whole else 1], [3, 2, 1] if whole else [2, 1])


def test_a_tail_torn_at_every_byte_under_an_open_writer(tmp_path: Path) -> None:
    """R13 R15: a writer that had the file open all the time starts on a fresh line too."""
    saved = [save(tmp_path, step) for step in (1, 2)]
    path = tmp_path / "t.jsonl"
    writer = FileCheckpointer(tmp_path, fsync=False)
    line = path.read_bytes().splitlines()[-1]
    for stop in range(1, len(line)):
        with path.open("ab") as file:  # another process, killed while it wrote
            file.write(line[:stop])
        assert writer.get_checkpoint("t") == saved[-1]
        writer.save_checkpoint("t", 10 + stop, {})
        saved.append({"step": 10 + stop, "state": {}, "tree": None, "runtime_metadata": {}})
    assert steps(tmp_path) == [one["step"] for one in reversed(saved)]


def test_a_first_line_torn_at_every_byte(tmp_path: Path) -> None:
    """R13: a thread whose only checkpoint is torn has none, without an exception, and can be begun again."""
    first = save(tmp_path, 1)
    path = tmp_path / "t.jsonl"
    content = path.read_bytes()
    for stop in range(len(content) - 1):
        path.write_bytes(content[:stop])
        assert FileCheckpointer(tmp_path).get_checkpoint("t") is None
        assert save(tmp_path, 1) == first == FileCheckpointer(tmp_path).get_checkpoint("t")


@pytest.mark.parametrize("length", [1, 4095, 4096, 65_536, 200_000])
def test_zeros_after_a_loss_of_power(tmp_path: Path, length: int) -> None:
    """R13: a file system may have made the file longer without having written what was to stand there."""
    saved = [save(tmp_path, step) for step in (1, 2)]
    with (tmp_path / "t.jsonl").open("ab") as file:
        file.write(bytes(length))
    check_goes_on(tmp_path, saved[-1], [2, 1])


@given(tail=st.binary(max_size=300), lines=st.integers(0, 3))
def test_any_bytes_behind_the_last_line(tail: bytes, lines: int) -> None:
    """R13: no rubbish behind the checkpoints raises; what was saved afterwards is the newest."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for step in range(lines):
            save(folder, step)
        with (folder / "t.jsonl").open("ab") as file:
            file.write(tail)
        checkpointer = FileCheckpointer(folder)
        checkpointer.get_checkpoint("t")
        assert set(range(lines)) <= {info.step for info in checkpointer.list_checkpoints("t")}
        assert save(folder, 9) == checkpointer.get_checkpoint("t")


def test_only_whole_checkpoints_are_kept(tmp_path: Path) -> None:
    """R13 R16: a file that is made shorter loses its torn lines first."""
    for step in (1, 2, 3):
        save(tmp_path, step)
        with (tmp_path / "t.jsonl").open("ab") as file:
            file.write(b'{"step": 7, "sta')
    assert FileCheckpointer(tmp_path).prune("t", keep_last=2) == 1
    assert steps(tmp_path) == [3, 2]
    assert b"sta\n" not in (tmp_path / "t.jsonl").read_bytes()

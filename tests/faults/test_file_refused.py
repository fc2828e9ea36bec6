"""Saves that the system refuses: a full disk, a folder or a file without permission, a folder that is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jianmu.errors import CheckpointLoadError, CheckpointSaveError
from jianmu.memory import FileCheckpointer

ROOT = Path(__file__).parents[2]
HEAD = """
import os, sys
from pathlib import Path
import pytest
from jianmu.errors import CheckpointLoadError, CheckpointSaveError
from jianmu.memory import FileCheckpointer
from tests.faults.file_limits import largest_file, obey_permissions
folder = Path(sys.argv[1])
"""

DISK_FULL = """
FileCheckpointer(folder / "size").save_checkpoint("t", 22, {"text": "y" * 100})
size = (folder / "size" / "t.jsonl").stat().st_size
for fsync in (False, True):
    checkpointer, path = FileCheckpointer(folder, fsync=fsync), folder / "t.jsonl"
    checkpointer.save_checkpoint("t", 1, {"text": "x" * 100})
    before, whole = checkpointer.get_checkpoint("t"), path.read_bytes()
    for room in range(size - 1):
        with largest_file(len(whole) + room):
            with pytest.raises(CheckpointSaveError, match="thread 't', step 22: .*t.jsonl.*File too large") as caught:
                checkpointer.save_checkpoint("t", 22, {"text": "y" * 100})
            assert isinstance(caught.value.__cause__, OSError)
        assert path.read_bytes() == whole, "what was begun is cut off again"
        assert checkpointer.get_checkpoint("t") == FileCheckpointer(folder).get_checkpoint("t") == before
        assert checkpointer.list_threads() == ["t"]
    checkpointer.save_checkpoint("t", 2, {"text": "y" * 100})
    assert [info.step for info in checkpointer.list_checkpoints("t")] == [2, 1]
    assert checkpointer.delete_thread("t")
"""

NO_ROOM_FOR_A_THREAD = """
checkpointer = FileCheckpointer(folder)
with largest_file(10), pytest.raises(CheckpointSaveError, match="thread 'new', step 1"):
    checkpointer.save_checkpoint("new", 1, {})
assert checkpointer.get_checkpoint("new") is None
assert checkpointer.list_threads() == []
checkpointer.save_checkpoint("new", 1, {})
assert checkpointer.list_threads() == ["new"]
"""

NO_ROOM_TO_FORK_OR_PRUNE = """
checkpointer, path = FileCheckpointer(folder), folder / "t.jsonl"
for step in range(4):
    checkpointer.save_checkpoint("t", step, {"text": "x" * 100})
whole = path.read_bytes()
with largest_file(150):
    with pytest.raises(CheckpointSaveError, match="thread 'fork', step 2"):
        checkpointer.fork("t", 2, "fork")
    with pytest.raises(CheckpointSaveError, match="thread 't'"):
        checkpointer.prune("t", keep_last=2)
assert path.read_bytes() == whole
assert checkpointer.get_checkpoint("fork") is None
assert not [name for name in os.listdir(folder) if "draft" in name]
assert checkpointer.prune("t", keep_last=2) == 2
"""

READ_ONLY_FOLDER = """
checkpointer = FileCheckpointer(folder)
checkpointer.save_checkpoint("t", 1, {"a": 1})
before = sorted(os.listdir(folder))
obey_permissions()
folder.chmod(0o500)
with pytest.raises(CheckpointSaveError, match="thread 'new', step 7: .*new.jsonl.*Permission denied"):
    checkpointer.save_checkpoint("new", 7, {})
with pytest.raises(CheckpointSaveError, match="thread 't'.*t.lock.*Permission denied"):
    checkpointer.lock("t").__enter__()
with pytest.raises(CheckpointSaveError, match="thread 't'"):
    checkpointer.delete_thread("t")
checkpointer.save_checkpoint("t", 2, {"a": 2})
with pytest.raises(CheckpointSaveError, match="thread 't'"):
    checkpointer.prune("t", keep_last=1)
assert checkpointer.get_checkpoint("new") is None
assert checkpointer.get_checkpoint("t")["state"] == {"a": 2}
assert sorted(os.listdir(folder)) == before
with pytest.raises(CheckpointSaveError, match="deeper"):
    FileCheckpointer(folder / "deeper").save_checkpoint("t", 1, {})
folder.chmod(0o700)
checkpointer.save_checkpoint("new", 7, {})
"""

READ_ONLY_FILE = """
FileCheckpointer(folder).save_checkpoint("t", 1, {"a": 1})
obey_permissions()
(folder / "t.jsonl").chmod(0o400)
checkpointer = FileCheckpointer(folder)
with pytest.raises(CheckpointSaveError, match="thread 't', step 2: .*t.jsonl.*Permission denied"):
    checkpointer.save_checkpoint("t", 2, {})
assert checkpointer.get_checkpoint("t")["state"] == {"a": 1}
(folder / "t.jsonl").chmod(0o000)
with pytest.raises(CheckpointLoadError, match="thread 't': .*t.jsonl.*Permission denied"):
    checkpointer.get_checkpoint("t")  # None would mean that there is nothing
folder.chmod(0o000)
for attempt in (checkpointer.list_threads, lambda: checkpointer.get_checkpoint("t")):
    with pytest.raises(CheckpointLoadError, match="Permission denied"):
        attempt()
folder.chmod(0o700)
"""

LAWS = {
    "R18: a full disk, wherever in the line it is met": DISK_FULL,
    "R18: a disk too full for a new thread": NO_ROOM_FOR_A_THREAD,
    "R16 R18: a disk too full for a copy": NO_ROOM_TO_FORK_OR_PRUNE,
    "R18: a folder that may not be written": READ_ONLY_FOLDER,
    "R18: a file that may not be written, or not even read": READ_ONLY_FILE,
}


@pytest.mark.parametrize("law", LAWS)
def test_a_refused_save_changes_nothing(tmp_path: Path, law: str) -> None:
    """R18: the error names thread, step and file; the previous checkpoint is the newest; later saves go on."""
    command = [sys.executable, "-c", HEAD + LAWS[law], str(tmp_path / "checkpoints")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    """R18: the error names it, and the file is left as it is."""
    (tmp_path / "notes").write_text("mine")
    for folder in (tmp_path / "notes", tmp_path / "notes" / "deeper"):
        with pytest.raises(CheckpointSaveError, match=r"thread 't', step 1: .*notes"):
            FileCheckpointer(folder).save_checkpoint("t", 1, {})
        with pytest.raises(CheckpointLoadError, match="notes"):
            FileCheckpointer(folder).get_checkpoint("t")
    assert (tmp_path / "notes").read_text() == "mine"

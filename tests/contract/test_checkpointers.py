"""The checkpointers that need no package keep the contract."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson

from jianmu.memory import CheckpointerProtocol, FileCheckpointer, InMemoryCheckpointer, NullCheckpointer
from jianmu.testing import CheckpointerContract

if TYPE_CHECKING:
    from pathlib import Path


class TestFile(CheckpointerContract):
    """R12 to R16, R18."""

    def open(self, folder: Path) -> FileCheckpointer:
        return FileCheckpointer(folder / "checkpoints")

    def write_raw(self, folder: Path, thread_id: str, stored: Any) -> bool:
        FileCheckpointer(folder / "checkpoints").save_checkpoint(thread_id, 1, {"older": True})
        with (folder / "checkpoints" / f"{thread_id}.jsonl").open("ab") as file:
            file.write(orjson.dumps(stored) + b"\n")
        return True


class TestFileWithoutFsync(TestFile):
    def open(self, folder: Path) -> FileCheckpointer:
        return FileCheckpointer(folder / "checkpoints", fsync=False)


class TestFileThatIsShortened(TestFile):
    """R16: what the contract asks of up to 40 steps is still there."""

    def open(self, folder: Path) -> FileCheckpointer:
        return FileCheckpointer(folder / "checkpoints", fsync=False, keep_last=45)


class TestInMemory(CheckpointerContract):
    """R17."""

    persistent = False

    def open(self, folder: Path) -> InMemoryCheckpointer:
        return InMemoryCheckpointer()


def test_null_keeps_nothing() -> None:
    """R17: it has the interface of a checkpointer and no effect."""
    checkpointer = NullCheckpointer()
    assert isinstance(checkpointer, CheckpointerProtocol)
    checkpointer.save_checkpoint("t", 1, {"a": 1}, {"root": "RUNNING"}, {"k": 1})
    assert checkpointer.get_checkpoint("t") is None


def test_asynchronous_twins_cover_every_ability(tmp_path: Path) -> None:
    """R6: what a backend can do it can do off the event loop too."""

    async def use(checkpointer: Any) -> None:
        await checkpointer.asave_checkpoint("t", 1, {"a": 1})
        await checkpointer.asave_checkpoint("t", 2, {"a": 2})
        assert await checkpointer.alist_threads() == ["t"]
        assert [info.step for info in await checkpointer.alist_checkpoints("t", limit=1)] == [2]
        assert (await checkpointer.aget_checkpoint_at("t", 1))["state"] == {"a": 1}
        await checkpointer.afork("t", 1, "new")
        assert await checkpointer.aprune("t", keep_last=1) == 1
        assert await checkpointer.adelete_thread("t")
        assert await checkpointer.alist_threads() == ["new"]

    for checkpointer in (FileCheckpointer(tmp_path), InMemoryCheckpointer()):
        asyncio.run(use(checkpointer))

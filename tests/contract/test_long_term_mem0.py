"""Mem0 with Chroma on disk and a local embedder keeps the contract of long-term memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jianmu.memory import Mem0LongTermMemory
from jianmu.memory.long_term import keyless_mem0_config
from jianmu.rag import USEEmbedder
from jianmu.testing.long_term import LongTermMemoryContract

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class TestMem0WithChroma(LongTermMemoryContract):
    """R32: the real mem0ai, the real Chroma, no key."""

    embedder = USEEmbedder()

    @pytest.fixture(autouse=True)
    def _closing(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        self.opened: list[Mem0LongTermMemory] = []
        yield
        for memory in self.opened:
            memory.close()

    def open(self, folder: Path) -> Mem0LongTermMemory:
        memory = Mem0LongTermMemory(config=keyless_mem0_config(folder, self.embedder), infer=False)
        self.opened.append(memory)
        return memory

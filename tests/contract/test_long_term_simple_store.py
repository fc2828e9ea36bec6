"""SimpleStore keeps the contract of long-term memory (R30)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jianmu.memory import SimpleStore
from jianmu.testing.long_term import LongTermMemoryContract

if TYPE_CHECKING:
    from pathlib import Path


class TestSimpleStore(LongTermMemoryContract):
    """R33 to R36."""

    def open(self, folder: Path) -> SimpleStore:
        return SimpleStore(db_path=folder / "store.json")

"""SQLite, PostgreSQL and Redis keep the checkpointer contract, each plain and encrypted."""

import hashlib
import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from jianmu.memory import (
    EncryptedCheckpointer,
    FileCheckpointer,
    InMemoryCheckpointer,
    PostgresCheckpointer,
    RedisCheckpointer,
    SqliteCheckpointer,
)
from jianmu.testing import CheckpointerContract

KEYS = {"2026-05": os.urandom(32), "2026-04": os.urandom(16)}


def name_of(folder: Path) -> str:
    """A short name that is the folder's own."""
    return "t" + hashlib.sha256(str(folder).encode()).hexdigest()[:16]


class EngineContract(CheckpointerContract):
    def write_raw(self, folder: Path, thread_id: str, stored: Any) -> bool:
        with self.opened(folder) as checkpointer:
            checkpointer._rows.begin(thread_id, 1, orjson.dumps(stored), None)
        return True


class TestSqlite(EngineContract):
    def open(self, folder: Path) -> SqliteCheckpointer:
        return SqliteCheckpointer(folder / "checkpoints.db")


class TestSqliteWithShortChains(TestSqlite):
    def open(self, folder: Path) -> SqliteCheckpointer:
        return SqliteCheckpointer(folder / "checkpoints.db", keyframe_every=3)


class TestPostgres(EngineContract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres_url: str) -> None:
        self.url = postgres_url

    def open(self, folder: Path) -> PostgresCheckpointer:
        return PostgresCheckpointer(self.url, schema=name_of(folder), max_connections=4)


class TestRedis(EngineContract):
    @pytest.fixture(autouse=True)
    def _server(self, redis_url: str) -> None:
        self.url = redis_url

    def open(self, folder: Path) -> RedisCheckpointer:
        return RedisCheckpointer(self.url, prefix=name_of(folder))


class TestEncryptedSqlite(CheckpointerContract):
    def open(self, folder: Path) -> EncryptedCheckpointer:
        return EncryptedCheckpointer(SqliteCheckpointer(folder / "checkpoints.db"), KEYS)


class TestEncryptedPostgres(CheckpointerContract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres_url: str) -> None:
        self.url = postgres_url

    def open(self, folder: Path) -> EncryptedCheckpointer:
        inner = PostgresCheckpointer(self.url, schema=name_of(folder), max_connections=4)
        return EncryptedCheckpointer(inner, KEYS)


class TestEncryptedRedis(CheckpointerContract):
    @pytest.fixture(autouse=True)
    def _server(self, redis_url: str) -> None:
        self.url = redis_url

    def open(self, folder: Path) -> EncryptedCheckpointer:
        return EncryptedCheckpointer(RedisCheckpointer(self.url, prefix=name_of(folder)), KEYS)


class TestEncryptedInMemory(CheckpointerContract):
    persistent = False

    def open(self, folder: Path) -> EncryptedCheckpointer:
        return EncryptedCheckpointer(InMemoryCheckpointer(), KEYS)


class TestEncryptedFile(CheckpointerContract):
    def open(self, folder: Path) -> EncryptedCheckpointer:
        return EncryptedCheckpointer(FileCheckpointer(folder), KEYS)

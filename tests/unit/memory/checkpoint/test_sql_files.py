"""SQL that stands in files: found, in order, and all of it named and described."""

import pytest

from jianmu.errors import CheckpointVersionError
from jianmu.memory.checkpoint.sql_files import Migration, pending_migrations, read_migrations, read_queries

PACKAGES = ["jianmu.memory.checkpoint.sqlite", "jianmu.memory.checkpoint.postgres"]
STEPS = [Migration(1, "first", "a"), Migration(2, "second", "b")]


@pytest.mark.parametrize("package", PACKAGES)
def test_migrations_are_numbered_without_gaps(package: str) -> None:
    migrations = read_migrations(package)
    assert [migration.number for migration in migrations] == list(range(1, len(migrations) + 1))
    assert all(migration.sql.strip() for migration in migrations)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_query_is_described(package: str) -> None:
    queries = read_queries(package)
    assert queries
    assert [name for name, query in queries.items() if not query.startswith("-- ")] == []


@pytest.mark.parametrize(("version", "expected"), [(0, [1, 2]), (1, [2]), (2, [])])
def test_only_what_is_missing_is_pending(version: int, expected: list[int]) -> None:
    assert [step.number for step in pending_migrations(STEPS, version, "db")] == expected


def test_a_newer_schema_is_refused() -> None:
    with pytest.raises(CheckpointVersionError, match="db has schema version 3, this Jianmu knows versions up to 2"):
        pending_migrations(STEPS, 3, "db")

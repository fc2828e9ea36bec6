"""SQL that stands in a package's files: numbered migrations and named queries."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from jianmu.errors import CheckpointVersionError

if TYPE_CHECKING:
    from collections.abc import Sequence

_MIGRATION = re.compile(r"(\d{3})_(\w+)\.sql")
_QUERY = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


class Migration(NamedTuple):
    """One step of a schema: its number, its name and its statements."""

    number: int
    name: str
    sql: str


def read_migrations(package: str) -> list[Migration]:
    """Read ``migrations/001_name.sql`` and so on, in order.

    Args:
        package: the package that has the folder, such as ``jianmu.memory.checkpoint.sqlite``.
    """
    found: list[Migration] = []
    for file in resources.files(package).joinpath("migrations").iterdir():
        match = _MIGRATION.fullmatch(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text("utf-8")))
    return sorted(found)


def pending_migrations(migrations: Sequence[Migration], version: int, database: str) -> Sequence[Migration]:
    """Return the migrations that a database of this version still needs.

    Args:
        migrations: all of them, in order.
        version: the number of the last one the database has; 0 for none.
        database: how to name the database in an error.

    Raises:
        CheckpointVersionError: the database has one that is not known here.
    """
    newest = migrations[-1].number
    if version > newest:
        raise CheckpointVersionError(
            f"{database} has schema version {version}, this Jianmu knows versions up to {newest}; update Jianmu"
        )
    return [migration for migration in migrations if migration.number > version]


def read_queries(package: str) -> dict[str, str]:
    """Read ``queries.sql``: each query follows a line ``-- name: its_name``."""
    text = resources.files(package).joinpath("queries.sql").read_text("utf-8")
    parts = _QUERY.split(text)
    return {name: query.strip() for name, query in zip(parts[1::2], parts[2::2], strict=True)}

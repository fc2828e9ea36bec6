"""Mem0 on this machine: without key or network, and with a language model behind a local server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from jianmu.errors import ConfigurationError
from jianmu.memory import Mem0LongTermMemory
from jianmu.memory.long_term import keyless_mem0_config
from jianmu.rag import CallableEmbedder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HERE = ("agent", "thread")

_OFFLINE = """
import logging, socket, sys

tried = []

def refuse(self, address):
    tried.append(address)
    raise OSError("no network here")

socket.socket.connect = socket.socket.connect_ex = refuse

def look_up(*args, **kwargs):
    tried.append(args)
    raise OSError("no network here")

socket.getaddrinfo = look_up
logging.disable(logging.CRITICAL)

from jianmu.errors import ConfigurationError
from jianmu.memory import Mem0LongTermMemory
from jianmu.memory.long_term import keyless_mem0_config

with Mem0LongTermMemory(config=keyless_mem0_config(sys.argv[1]), infer=False) as memory:
    memory.record("The user has a cat called Momo", namespace=("agent",), key="pet")
    for query in sys.argv[2:]:
        print(memory.retrieve(query, limit=1, namespace=("agent",))[0]["content"])

import mem0.memory.telemetry
assert mem0.memory.telemetry.MEM0_TELEMETRY is False
assert tried == [], tried
"""


def run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEM0_", "OPENAI_"))}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=kept | environment, capture_output=True, text=True, timeout=120, check=False)


def test_keyless_needs_no_key_and_no_network_and_lasts(tmp_path: Path) -> None:
    """R32: no connection is tried, nothing is written outside the folder, and a second process finds what the first
    stored, also across languages."""
    home, store = tmp_path / "home", tmp_path / "store"
    home.mkdir()
    with Mem0LongTermMemory(config=keyless_mem0_config(store), infer=False) as memory:
        memory.record("用户喜欢喝绿茶", namespace=("agent",), key="drink")
    told = run(_OFFLINE, str(store), "绿茶", "what does the user drink?", "宠物叫什么名字", HOME=str(home))
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == ["用户喜欢喝绿茶", "用户喜欢喝绿茶", "The user has a cat called Momo"]
    assert list(home.iterdir()) == []
    assert {path.name for path in store.iterdir()} >= {"chroma", "history.db"}


_TELEMETRY = """
import os, sys
from jianmu.memory.long_term.mem0_clients import _quiet_import
if sys.argv[1] == "imported before":
    import mem0
before = dict(os.environ)
with _quiet_import(None):
    import mem0
from mem0.memory import telemetry
print(telemetry.MEM0_TELEMETRY, dict(os.environ) == before, flush=True)
os._exit(0)  # without telling anyone
"""


@pytest.mark.parametrize(
    ("environment", "on"), [({}, "False"), ({"MEM0_TELEMETRY": "True"}, "True")], ids=["unset", "on"]
)
def test_telemetry_is_off_unless_asked_for(tmp_path: Path, environment: dict[str, str], on: str) -> None:
    """R32: the user's own setting wins; the environment is left as it was."""
    told = run(_TELEMETRY, "not yet imported", HOME=str(tmp_path), **environment)
    assert told.stdout.split() == [on, "True"], told.stderr


def test_telemetry_that_is_already_on_is_told(tmp_path: Path) -> None:
    """R32: when Mem0 was imported before, it is too late to turn it off; a warning says so."""
    told = run(_TELEMETRY, "imported before", HOME=str(tmp_path))
    assert told.stdout.split() == ["True", "True"], told.stderr
    assert "MEM0_TELEMETRY=False" in told.stderr


class Provider:
    """An OpenAI-compatible service: embeds by counting letters, and extracts the facts it was told to."""

    def __init__(self) -> None:
        self.reply: Any = ""
        self.status = 200
        self.paths: list[str] = []

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        self.paths.append(path)
        if path == "/v1/embeddings":
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            data = [{"object": "embedding", "index": i, "embedding": letters(text)} for i, text in enumerate(texts)]
            return 200, {"object": "list", "model": body["model"], "data": data, "usage": {}}
        message = {"role": "assistant", "content": self.reply}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        answer = {"id": "c", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice]}
        return self.status, answer if self.status == 200 else {"error": {"message": "out of order"}}

    def extracts(self, *facts: str) -> None:
        self.reply = json.dumps({"memory": [{"text": fact} for fact in facts]})


def letters(text: str) -> list[float]:
    return [1.0 + text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"]


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def inferring(provider: Provider, tmp_path: Path) -> Iterator[Mem0LongTermMemory]:
    """Mem0 that extracts facts, with Chroma on disk and both models behind a server on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = provider.answer(self.path, body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    service = {"api_key": "local", "openai_base_url": f"http://127.0.0.1:{server.server_port}/v1"}
    config = {
        "vector_store": {
            "provider": "chroma",
            "config": {"collection_name": "facts", "path": str(tmp_path / "chroma")},
        },
        "embedder": {"provider": "openai", "config": {**service, "model": "letters"}},
        "llm": {"provider": "openai", "config": {**service, "model": "facts"}},
        "history_db_path": str(tmp_path / "history.db"),
    }
    with Mem0LongTermMemory(config=config) as memory:
        yield memory
    for client in (memory.client.llm.client, memory.client.embedding_model.client):
        client.close()
    server.shutdown()
    thread.join()
    server.server_close()


def test_infer_stores_the_facts_the_model_extracts(inferring: Mem0LongTermMemory, provider: Provider) -> None:
    """R32: with infer=True, the default, one text can become several memories, each with the metadata."""
    provider.extracts("User drinks green tea", "User has a cat")
    result = inferring.record("I drink green tea and my cat too", namespace=HERE, key="k", metadata={"n": None})
    assert [item["content"] for item in result["results"]] == ["User drinks green tea", "User has a cat"]
    assert (result["status"], result["id"]) == ("stored", result["results"][0]["id"])
    found = inferring.retrieve("green tea", namespace=HERE)
    assert found[0]["content"] == "User drinks green tea"
    assert found[0]["metadata"] == {"key": "k", "n": None}
    assert inferring.retrieve("green tea", namespace=("agent",)) == []
    assert "/v1/chat/completions" in provider.paths


@pytest.mark.parametrize("reply", ['{"memory": []}', "no JSON at all", ""], ids=["no fact", "no JSON", "empty"])
def test_infer_may_find_nothing_to_store(inferring: Mem0LongTermMemory, provider: Provider, reply: str) -> None:
    """R32: nothing extracted is reported as nothing, not as stored."""
    provider.reply = reply
    result = inferring.record("hello", namespace=HERE)
    assert (result["status"], result["id"], result["results"]) == ("nothing", None, [])
    assert inferring.retrieve("hello", namespace=HERE) == []


def test_a_model_that_fails_is_an_error(inferring: Mem0LongTermMemory, provider: Provider) -> None:
    """R32: a failing model is never mistaken for nothing to store."""
    provider.status = 400
    with pytest.raises(Exception, match="out of order"):
        inferring.record("I drink tea", namespace=HERE)


def test_infer_false_asks_no_model(inferring: Mem0LongTermMemory, provider: Provider) -> None:
    """R32: the text is stored as it is."""
    result = inferring.record("I drink tea", namespace=HERE, infer=False)
    assert [item["content"] for item in result["results"]] == ["I drink tea"]
    assert set(provider.paths) == {"/v1/embeddings"}


def test_each_embedder_has_its_own_collection(tmp_path: Path) -> None:
    """R32: vectors of different embedders are never compared, also when they have the same length; and without a
    language model nothing is ever sent to one."""
    for name in ("one", "two"):
        embedder = CallableEmbedder(lambda texts: [letters(text) for text in texts], dimension=26, name=name)
        with Mem0LongTermMemory(config=keyless_mem0_config(tmp_path, embedder), infer=False) as memory:
            memory.record(f"tea of {name}")
            with pytest.raises(ConfigurationError, match="needs a language model"):
                memory.record("tea", infer=True)
            assert [item["content"] for item in memory.retrieve("tea")] == [f"tea of {name}"]

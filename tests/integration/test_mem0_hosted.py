"""Mem0's hosted platform: the real client against a server on loopback that answers as the platform does."""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from jianmu.errors import ConfigurationError, LongTermMemoryError
from jianmu.memory import Mem0LongTermMemory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HERE = ("agent", "thread")
KEY = "m0-test"


class Platform:
    """Keeps memories by user id. A write is an event; it is carried out when it has been asked about often enough."""

    def __init__(self, polls: int) -> None:
        self.polls = polls
        self.fails = False
        self.stutters = False
        self.tells_results = True
        self.requests: list[tuple[str, str, Any]] = []
        self.memories: dict[str, dict[str, Any]] = {}
        self.events: dict[str, dict[str, Any]] = {}

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.requests.append((method, path, body))
        if path == "/v1/ping/":
            return 200, {"status": "ok", "org_id": "o", "project_id": "p", "user_email": "someone@example.org"}
        if path in ("/v3/memories/add/", "/v1/memories/") and method == "POST":
            return 200, self.accept(body)
        if path in ("/v3/memories/search/", "/v2/memories/search/"):
            return 200, {"results": self.search(body)}
        if match := re.fullmatch("/v1/event/(.+)/", path):
            event = self.ask(match[1])
            return (200, event) if event else (502, {"detail": "bad gateway"})
        if match := re.fullmatch("/v1/memories/(.+)/", path):
            return self.one(method, match[1])
        return 404, {"detail": "no such page"}

    def accept(self, body: Any) -> Any:
        event_id = f"event-{len(self.events)}"
        self.events[event_id] = {"left": self.polls, "body": body, "results": None, "status": "PENDING"}
        return {"message": "queued", "status": "PENDING", "event_id": event_id}

    def ask(self, event_id: str) -> Any:
        event = self.events[event_id]
        if event["left"] == self.polls and self.stutters:
            self.stutters = False
            return None
        event["left"] -= 1
        if event["status"] in ("PENDING", "RUNNING"):
            event["status"] = "RUNNING" if event["left"] > 0 else "FAILED" if self.fails else "SUCCEEDED"
            if event["status"] == "SUCCEEDED":
                event["results"] = self.store(event["body"])
        results = event["results"] if self.tells_results else None
        return {"id": event_id, "event_type": "ADD", "status": event["status"], "results": results}

    def store(self, body: Any) -> list[Any]:
        memory_id = f"memory-{len(self.memories)}"
        text = body["messages"][0]["content"]
        self.memories[memory_id] = {
            "id": memory_id,
            "memory": text,
            "user_id": body["user_id"],
            "metadata": body.get("metadata"),
        }
        return [{"id": memory_id, "data": {"memory": text}, "event": "ADD"}]

    def search(self, body: Any) -> list[Any]:
        words = set(body["query"].lower().split())
        user = body["filters"]["user_id"]
        mine = [memory for memory in self.memories.values() if user in ("*", memory["user_id"])]
        scored = [{**memory, "score": len(words & set(memory["memory"].lower().split())) / 9} for memory in mine]
        return [memory for memory in scored if memory["score"]][: body["top_k"]]

    def one(self, method: str, memory_id: str) -> tuple[int, Any]:
        if memory_id not in self.memories:
            return 404, {"detail": "Memory not found"}
        if method == "DELETE":
            del self.memories[memory_id]
            return 200, {"message": "Memory deleted successfully!"}
        return 200, self.memories[memory_id]

    def bodies(self, ending: str) -> list[Any]:
        return [body for _, path, body in self.requests if path.endswith(ending)]


@contextmanager
def serving(platform: Platform) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            known = self.headers.get("Authorization") == f"Token {KEY}"
            path = self.path.split("?")[0]
            status, answer = (
                platform.answer(self.command, path, body) if known else (401, {"detail": "Invalid API key"})
            )
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = handle_any

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def _mem0_writes_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEM0_DIR", str(tmp_path))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def platform() -> Platform:
    return Platform(polls=2)


@pytest.fixture
def host(platform: Platform) -> Iterator[str]:
    with serving(platform) as address:
        yield address


def test_a_write_that_is_waited_for_can_be_found(platform: Platform, host: str) -> None:
    """R32: with wait, record returns when the platform has stored the memory, with its id."""
    with Mem0LongTermMemory(api_key=KEY, host=host, wait=30) as memory:
        result = memory.record("I like green tea", namespace=HERE, key="drink", metadata={"tags": ["hot"]})
        assert (result["status"], result["id"], result["event_id"]) == ("stored", "memory-0", None)
        assert result["results"][0]["content"] == "I like green tea"
        found = memory.retrieve("green tea", namespace=HERE)
        assert [(item["id"], item["content"]) for item in found] == [("memory-0", "I like green tea")]
        assert found[0]["metadata"] == {"tags": ["hot"], "key": "drink"}
    assert len(platform.bodies("/v1/event/event-0/")) == 2


def test_a_write_that_is_not_waited_for_is_pending(platform: Platform, host: str) -> None:
    """R32: without wait, record says so at once and names the event."""
    with Mem0LongTermMemory(api_key=KEY, host=host) as memory:
        result = memory.record("I like green tea", namespace=HERE)
        assert (result["status"], result["id"], result["event_id"]) == ("pending", None, "event-0")
        assert memory.retrieve("green tea", namespace=HERE) == []


def test_waiting_has_an_end(platform: Platform, host: str) -> None:
    """R32: when the time is over the write is still pending, which is no error."""
    platform.polls = 10**9
    with Mem0LongTermMemory(api_key=KEY, host=host, wait=0.2) as memory:
        assert memory.record("I like green tea")["status"] == "pending"


def test_a_write_that_fails_is_an_error(platform: Platform, host: str) -> None:
    platform.fails = True
    with (
        Mem0LongTermMemory(api_key=KEY, host=host, wait=30) as memory,
        pytest.raises(LongTermMemoryError, match="event-0"),
    ):
        memory.record("I like green tea")


def test_a_question_that_fails_is_asked_again(platform: Platform, host: str) -> None:
    """R32: the write was accepted; a bad answer while waiting must not look like a failed write."""
    platform.stutters = True
    with Mem0LongTermMemory(api_key=KEY, host=host, wait=30) as memory:
        assert memory.record("I like green tea")["status"] == "stored"
    assert not platform.stutters


def test_an_event_that_does_not_tell_what_it_stored(platform: Platform, host: str) -> None:
    platform.tells_results = False
    with Mem0LongTermMemory(api_key=KEY, host=host, wait=30) as memory:
        result = memory.record("I like green tea")
        assert (result["status"], result["id"]) == ("stored", None)
        assert memory.retrieve("tea")[0]["content"] == "I like green tea"


def test_what_is_sent(platform: Platform, host: str) -> None:
    """R32: infer unchanged, the user id on top of add and inside the filters of search, the key in the metadata."""
    with Mem0LongTermMemory(api_key=KEY, host=host, infer=False) as memory:
        memory.record("tea", namespace=HERE, key="k")
        memory.retrieve("tea", limit=3, namespace=HERE)
    (added,) = platform.bodies("/add/") or platform.bodies("/v1/memories/")
    assert (
        added.items()
        >= {
            "messages": [{"role": "user", "content": "tea"}],
            "user_id": "agent/thread",
            "metadata": {"key": "k"},
            "infer": False,
        }.items()
    )
    (searched,) = platform.bodies("/search/")
    assert searched.items() >= {"query": "tea", "filters": {"user_id": "agent/thread"}, "top_k": 3}.items()
    assert "user_id" not in searched


def test_one_namespace_says_nothing_of_another(platform: Platform, host: str) -> None:
    """R31: not in search, not by id, not with a wildcard."""
    with Mem0LongTermMemory(api_key=KEY, host=host, wait=30) as memory:
        memory_id = memory.record("green tea", namespace=HERE)["id"]
        assert memory_id is not None
        for other in (("*",), ("agent",), ()):
            assert memory.retrieve("green tea", namespace=other) == []
            assert memory.get(memory_id, namespace=other) is None
            assert memory.delete(memory_id, namespace=other) is False
        assert memory.delete("unknown", namespace=HERE) is False
        assert memory.delete(memory_id, namespace=HERE) is True
        assert memory.get(memory_id, namespace=HERE) is None


def test_a_wrong_key_is_a_clear_error(host: str) -> None:
    """R32: the platform's refusal is told, the key is not."""
    with pytest.raises(ConfigurationError, match="refused the api_key") as caught:
        Mem0LongTermMemory(api_key="m0-wrong", host=host)
    assert "m0-wrong" not in str(caught.value)


def test_a_platform_out_of_reach_is_a_clear_error() -> None:
    with serving(Platform(polls=1)) as address:
        pass
    with pytest.raises(LongTermMemoryError, match="cannot reach"):
        Mem0LongTermMemory(api_key=KEY, host=address)

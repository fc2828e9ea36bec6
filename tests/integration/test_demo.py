"""`make demo` shows what it claims: checked in the files it leaves, not in what it prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jianmu import ToolCall
from jianmu.memory import FileCheckpointer, SimpleStore
from jianmu.testing import ScriptedOpenAIServer

DEMO = Path(__file__).parents[2] / "examples" / "00_demo.py"
ITEMS = ["oolong, light roast", "porcelain cup", "gift box"]


class Played:
    """One run of the demo and what it left."""

    def __init__(self, cwd: Path, **variables: str) -> None:
        self.folder = cwd / ".outputs" / "jianmu" / "demo"
        self.folder.mkdir(parents=True)
        (self.folder / "ledger.jsonl").write_text("left by an earlier demo\n")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
        started = time.monotonic()
        ran = subprocess.run(
            [sys.executable, DEMO],
            cwd=cwd,
            env=kept | {"HOME": str(cwd), "PYTHONIOENCODING": "utf-8", "PYTHONWARNINGS": "error"} | variables,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )
        self.seconds = time.monotonic() - started
        self.code, self.printed, self.complained = ran.returncode, ran.stdout, ran.stderr

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text("utf-8").splitlines()]

    @property
    def processes(self) -> list[dict[str, Any]]:
        return json.loads((self.folder / "processes.json").read_text())

    @property
    def checkpoints(self) -> FileCheckpointer:
        return FileCheckpointer(self.folder / "checkpoints")

    def events_of(self, thread: str, kind: str) -> list[dict[str, Any]]:
        return [e for e in self.lines("events.jsonl") if e["thread_id"] == thread and e["type"] == kind]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The demo as it runs without a key."""
    return Played(tmp_path_factory.mktemp("demo"))


def test_it_ends_well_and_in_time(played):
    assert played.code == 0, played.printed + played.complained
    assert played.complained == ""
    assert played.seconds < 60


def test_the_first_process_is_killed_and_two_others_end_well(played):
    """R7: three processes; the first dies of SIGKILL."""
    assert [process["returncode"] for process in played.processes] == [-signal.SIGKILL, 0, 0]
    assert len({process["pid"] for process in played.processes}) == 3


def test_no_side_effect_happens_twice(played):
    """R24: two ledger lines by the killed process, the third by the one that resumed; each under its own key."""
    first, second, _ = (process["pid"] for process in played.processes)
    ledger = played.lines("ledger.jsonl")
    assert [(line["item"], line["pid"]) for line in ledger] == list(zip(ITEMS, [first, first, second], strict=True))
    assert len({line["key"] for line in ledger}) == 3


def _unfinished(envelope: dict[str, Any]) -> list[str]:
    effects = [e for leaf in envelope["runtime_metadata"]["effects"].values() for e in leaf["effects"].items()]
    return [key for key, entry in effects if entry["status"] == "started"]


def test_the_kill_fell_between_the_side_effect_and_its_checkpoint(played):
    """The worst moment: the second line is on disk, and the checkpoint only knows that it was begun."""
    steps = [info.step for info in reversed(played.checkpoints.list_checkpoints("order-1042"))]
    (restored,) = played.events_of("order-1042", "checkpoint.restored")
    at = restored["payload"]["step"]
    assert steps == list(range(1, steps[-1] + 1))
    assert 1 < at < steps[-1]
    killed = played.checkpoints.get_checkpoint_at("order-1042", at)
    assert killed["tree"]["clerk/turn/call the tools"] == "RUNNING"
    assert [key.partition(":")[0] for key in _unfinished(killed)] == ["write_ledger-2/0"]


def test_the_second_process_goes_on_and_repeats_nothing(played):
    """R24: the call in doubt is settled by asking the ledger; it is not made again."""
    began = [e["payload"]["arguments"]["item"] for e in played.events_of("order-1042", "tool.started")
             if e["payload"]["tool"] == "write_ledger"]  # fmt: skip
    # The killed process may not have written its last event down; whatever was written stands there once, in order.
    assert began in (ITEMS, [ITEMS[0], *ITEMS[2:]])
    assert [e["payload"]["key"] for e in played.events_of("order-1042", "effect.in_doubt")] == ["write_ledger-2/0"]
    final = played.checkpoints.get_checkpoint("order-1042")
    assert set(final["tree"].values()) == {"SUCCESS"}
    assert "63.50" in final["state"]["answer"]
    assert _unfinished(final) == []


def test_the_model_is_asked_once_for_each_answer(played):
    states = [played.checkpoints.get_checkpoint(thread)["state"] for thread in ("order-1042", "phone-call")]
    answers = [message for state in states for message in state["messages"] if message["role"] == "assistant"]
    assert played.processes[-1]["requests"] == len(answers)


def test_what_was_remembered_is_in_the_store_in_both_languages(played):
    """R37, R40: memory_add stored it, under the namespace of the shop."""
    stored = json.loads((played.folder / "store.json").read_text("utf-8"))["tea-shop"]
    assert {key: entry["content"] for key, entry in stored.items()} == {
        "lin-tea": "Ms Lin likes oolong tea, light roast.",
        "lin-allergy": "林女士对花生过敏，包裹里不能放花生糖。",
    }
    assert (
        SimpleStore(played.folder / "store.json").retrieve("花生过敏", namespace=("tea-shop",))[0]["id"]
        == "lin-allergy"
    )


def test_a_new_session_answers_from_memory_alone(played):
    """R39: the third process has another thread; what it says comes out of memory_search."""
    state = played.checkpoints.get_checkpoint("phone-call")["state"]
    asked, wish, *found, answer = state["messages"]
    assert asked["content"].endswith("她对什么过敏？")
    assert "oolong" not in json.dumps([asked, wish], ensure_ascii=False)
    assert [result["name"] for result in found] == ["memory_search"] * 2
    assert "oolong" in found[0]["content"]
    assert "花生" in found[1]["content"]
    assert answer["content"] == state["answer"]
    assert "oolong" in state["answer"]
    assert "花生" in state["answer"]
    assert played.events_of("phone-call", "checkpoint.restored") == []


def test_it_closes_with_eight_lines_and_shows_trees(played):
    said = played.printed.split("What you have just seen")[1].splitlines()[1:]
    assert [line.split()[:2] for line in said] == [[f"{number}.", "✓"] for number in range(1, 9)]
    assert "● call the tools RUNNING" in played.printed


def test_everything_it_leaves_is_in_its_folder(played):
    root = played.folder.parents[2]
    left = {path for path in root.rglob("*") if path.is_file()}
    assert left
    assert all(path.is_relative_to(played.folder) for path in left)


def _call(name: str, call_id: str, **arguments: Any) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def test_with_a_key_the_provider_is_asked_whatever_way_it_goes_about_it(tmp_path):
    """A provider that calls several tools in one turn, under ids of its own: killed in the middle of them."""
    amounts = zip(ITEMS, (36.0, 18.5, 9.0), strict=True)
    lines = [_call("write_ledger", "same-id", order_id="1042", item=item, amount=amount) for item, amount in amounts]
    facts = [
        _call("memory_add", "m", content="Ms Lin drinks oolong."),
        _call("memory_add", "m", content="林女士花生过敏。"),
    ]
    found = [_call("memory_search", "s", query="Ms Lin"), _call("memory_search", "s", query="花生过敏")]
    script = [
        _call("read_order", "r", order_id="1042"),
        [*facts, *lines],
        "Done.",
        found,
        "She likes oolong. 她对花生过敏。",
    ]
    with ScriptedOpenAIServer(script) as provider:
        variables = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": provider.url, "OPENAI_MODEL": "far-away"}
        played = Played(tmp_path, **variables)
    assert played.code == 0, played.printed + played.complained
    first, second, _ = (process["pid"] for process in played.processes)
    ledger = played.lines("ledger.jsonl")
    assert [(line["item"], line["pid"]) for line in ledger] == list(zip(ITEMS, [first, first, second], strict=True))
    assert len(provider.requests) == len(script)
    assert {request.headers["authorization"] for request in provider.requests} == {"Bearer k"}
    assert {request.body["model"] for request in provider.requests} == {"far-away"}

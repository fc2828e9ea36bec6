"""Kill an agent in the middle of its work, resume it in another process, and ask a third one what it remembers.

Run it with ``make demo``. Without ``OPENAI_API_KEY`` the model is a script behind a server on this machine, reached
over HTTP all the same; with it (and ``OPENAI_BASE_URL``, ``OPENAI_MODEL``) the agent asks the real one. Everything it
leaves is under ``.outputs/jianmu/demo/``.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from demo import agent
from demo.clerk import clerk
from demo.screen import console, show_ledger, show_tree
from demo.shop import ORDERS, ledger_lines

from jianmu.memory import FileCheckpointer, SimpleStore
from jianmu.testing import ScriptedOpenAIServer

FOLDER = Path(".outputs/jianmu/demo")
ORDER, SESSION = "order-1042", "phone-call"
TASK = "Please fulfil order 1042."
QUESTION = "Ms Lin is on the phone. Which tea does she like? 她对什么过敏？"
KILL_AFTER = 2


class Demo:
    """The three processes, and what is known of them."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.ended: list[dict] = []
        self.server: ScriptedOpenAIServer | None = None

    def start(self, role: str, *arguments: str) -> subprocess.Popen:
        """Start one agent process."""
        process = subprocess.Popen([sys.executable, __file__, "agent", str(FOLDER), *arguments])
        console.print(f"\n[bold reverse] {role} [/] process {process.pid}: [dim]{' '.join(arguments)}[/]")
        return process

    def end(self, role: str, process: subprocess.Popen) -> None:
        """Wait for a process and note how it ended."""
        code = process.wait(timeout=120)
        self.ended.append({"role": role, "pid": process.pid, "returncode": code, "requests": self.requests})
        (FOLDER / "processes.json").write_text(json.dumps(self.ended, indent=2))
        if code > 0:
            sys.exit(f"the {role} process ended with exit code {code}; it says above why")

    @property
    def requests(self) -> int | None:
        """How often the scripted model was asked so far."""
        return None if self.server is None else len(self.server.requests)


def main() -> int:
    """Play the demo; returns 0 when everything it claims is so."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    demo = Demo()
    with ExitStack() as stack:
        if not os.environ.get("OPENAI_API_KEY"):
            demo.server = stack.enter_context(ScriptedOpenAIServer(clerk))
            scripted = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": demo.server.url, "OPENAI_MODEL": "scripted-clerk"}
            os.environ |= scripted
        console.rule("[bold]Jianmu: killed, resumed, remembered")
        console.print(f"The user: [italic]{TASK}[/]   The model: {agent.model_name()} at {_model_url()}")
        first_process(demo)
        second_process(demo)
        third_process(demo)
    return closing(demo)


def first_process(demo: Demo) -> None:
    """Let the agent begin, and kill it right after its second line is on disk, before it has heard of that."""
    process = demo.start("first process", ORDER, "--ask", TASK, "--hold-after", str(KILL_AFTER))
    while process.poll() is None and len(ledger_lines(FOLDER / "ledger.jsonl")) < KILL_AFTER:
        time.sleep(0.01)
    process.kill()
    demo.end("first", process)
    console.print(f"  [bold red]SIGKILL[/] after ledger line {KILL_AFTER}, before the agent could note it\n")
    checkpoint = FileCheckpointer(FOLDER / "checkpoints").get_checkpoint(ORDER)
    assert checkpoint is not None
    show_tree(checkpoint["tree"], f"what is on disk: the checkpoint of step {checkpoint['step']}")
    for leaf in checkpoint["runtime_metadata"]["effects"].values():
        for key, entry in leaf["effects"].items():
            note = f"{key.partition(':')[0]} is [bold]{entry['status']}[/] and has no result"
            console.print(f"  [yellow]its effect journal:[/] {note}")


def second_process(demo: Demo) -> None:
    """Resume the thread; nothing but its name is given."""
    demo.end("second", demo.start("second process", ORDER))
    console.print()
    show_ledger(ledger_lines(FOLDER / "ledger.jsonl"))


def third_process(demo: Demo) -> None:
    """Open another thread, which knows nothing of the first one's conversation."""
    console.print(f"\nThe user, in a new session: [italic]{QUESTION}[/]")
    demo.end("third", demo.start("third process", SESSION, "--ask", QUESTION))


def closing(demo: Demo) -> int:
    """Check every claim, and say in eight lines what was seen."""
    files, lines = FileCheckpointer(FOLDER / "checkpoints"), ledger_lines(FOLDER / "ledger.jsonl")
    first, second, third = demo.ended
    memories = SimpleStore(FOLDER / "store.json").retrieve("Lin 林女士", namespace=("tea-shop",))
    steps = [info.step for info in files.list_checkpoints(ORDER)]
    states = [files.get_checkpoint(thread)["state"] for thread in (ORDER, SESSION)]
    asked = sum(message["role"] == "assistant" for state in states for message in state["messages"])
    by = [sum(line["pid"] == process["pid"] for line in lines) for process in (first, second)]
    ordered = sorted(item["item"] for item in ORDERS["1042"]["items"])
    said, seconds = states[1]["answer"], time.perf_counter() - demo.started
    claims = {
        f"A behaviour tree asked a model over HTTP, through the openai package: {asked} times, no answer was lost.": (
            demo.requests in (asked, None)
        ),
        f"Every tick was saved, across both processes: {len(steps)} checkpoints of {ORDER!r}.": (
            steps == list(range(len(steps), 0, -1))
        ),
        f"Process {first['pid']} died of SIGKILL right after ledger line {KILL_AFTER}.": (
            first["returncode"] == -signal.SIGKILL
        ),
        f"Process {second['pid']} was told the thread's name, nothing else, went on there, and finished.": (
            second["returncode"] == 0
        ),
        f"The ledger has {len(lines)} lines, {by[0]} by the first and {by[1]} by the second process, none twice.": (
            sorted(line["item"] for line in lines) == ordered and all(by)
        ),
        f"memory_add kept {len(memories)} facts in store.json, English and Chinese.": len(memories) >= 2,
        f"Process {third['pid']}, in a new session, answered in both languages from memory_search.": (
            "oolong" in said and ("花生" in said or "peanut" in said)
        ),
        f"It took {seconds:.1f} s{', no network, no key' if demo.server else ''}; all is in {FOLDER}.": demo.server
        is None
        or seconds < 60,
    }
    console.rule("[bold]What you have just seen")
    for number, (claim, held) in enumerate(claims.items(), 1):
        console.print(f"  {number}. {'[green]✓[/]' if held else '[red]✗ NOT SO:[/]'} {claim}")
    return 0 if all(claims.values()) else 1


def _model_url() -> str:
    return os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")


if __name__ == "__main__":
    sys.exit(agent.main(sys.argv[2:]) if sys.argv[1:2] == ["agent"] else main())

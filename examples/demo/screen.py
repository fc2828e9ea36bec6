"""What the demo shows: events as they come, trees, the ledger."""

import json
import sys
import time

from py_trees.behaviour import Behaviour
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from jianmu import StateManager
from jianmu.events import RuntimeEvent

sys.stdout.reconfigure(encoding="utf-8")  # a terminal that says it is ASCII is shown Chinese all the same
console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)

MARKS = {"SUCCESS": "[green]✓[/]", "FAILURE": "[red]✗[/]", "RUNNING": "[yellow]●[/]", "INVALID": "[dim]·[/]"}
COLOURS = {"model": "cyan", "tool": "magenta", "effect": "yellow", "memory": "green", "checkpoint": "blue"}
QUIET = ("tick.", "node.", "state.")


def show_tree(statuses: dict[str, str], title: str) -> None:
    """Draw a tree from its nodes' paths and statuses."""
    drawn: dict[str, Tree] = {}
    for path, status in statuses.items():
        above, _, name = path.rpartition("/")
        label = f"{MARKS[status]} {name} [dim]{status}[/]"
        drawn[path] = drawn[above].add(label) if above in drawn else Tree(label)
    console.print(f"  [bold]{title}[/]")
    console.print(Padding(next(iter(drawn.values())), (0, 4)))


def statuses_of(node: Behaviour, above: str = "") -> dict[str, str]:
    """Tell the status of each node by its path."""
    path = f"{above}/{node.name}" if above else node.name
    found = {path: node.status.name}
    for child in node.children:
        found |= statuses_of(child, path)
    return found


class EventPrinter:
    """Prints events as they come; saves that follow each other share a line.

    Args:
        tree: drawn when it was restored.
        state: tells how many messages were restored.
    """

    inline = True

    def __init__(self, tree: Behaviour, state: StateManager) -> None:
        self._tree = tree
        self._state = state
        self._started = time.perf_counter()
        self._saves: list[int] = []

    def handle(self, event: RuntimeEvent) -> None:
        """Print one event."""
        if event.type == "checkpoint.saved":
            self._saves.append(event.payload["step"])
        elif not event.type.startswith(QUIET):
            self._print_saves()
            self._line(event.type, describe(event.type, event.payload))
        if event.type == "checkpoint.restored":
            messages = len(self._state.get("messages"))
            title = f"restored: {messages} messages and this tree; the leaf that was at work starts again"
            show_tree(statuses_of(self._tree), title)
        if event.type.startswith("run.f"):
            self._print_saves()

    def _print_saves(self) -> None:
        saves, self._saves = self._saves, []
        if saves:
            times = "once" if len(saves) == 1 else f"{len(saves)} times"
            self._line("checkpoint.saved", f"{times}, up to step {saves[-1]}")

    def _line(self, kind: str, text: str) -> None:
        since = (time.perf_counter() - self._started) * 1000
        colour = COLOURS.get(kind.partition(".")[0], "white")
        line = Text.assemble((f"  {since:6.0f} ms  ", "dim"), (f"{kind:<20}", colour), text)
        console.print(line, no_wrap=True, overflow="ellipsis")


def describe(kind: str, payload: dict) -> str:
    """Say the gist of an event."""
    match kind:
        case "model.requested":
            return f"{payload['model']} reads {payload['messages']} messages, may call {payload['tools']} tools"
        case "model.completed":
            tokens = f"{payload['input_tokens']} + {payload['output_tokens']} tokens"
            return f"{payload['finish_reason']}, {tokens}, {payload['seconds'] * 1000:.0f} ms over HTTP"
        case "tool.started":
            return f"{payload['tool']} {json.dumps(payload['arguments'], ensure_ascii=False)}"
        case "tool.finished":
            return f"{payload['tool']}, {payload['chars']} characters"
        case "effect.in_doubt":
            return f"{payload['key']}: begun before the crash, outcome unknown; asking the ledger"
        case "checkpoint.restored":
            return f"step {payload['step']}, {payload['restored']} nodes"
        case "memory.searched":
            return f"{payload['query']!r}: {payload['results']} found"
        case "memory.added":
            return f"key {payload['key']!r}"
        case _:
            return ", ".join(f"{name} {value}" for name, value in payload.items() if name not in ("path", "thread_id"))


def show_ledger(lines: list[dict]) -> None:
    """Show the ledger, and which process wrote what."""
    table = Table("line", "item", "amount", "idempotency key", "written by process", box=None, padding=(0, 2))
    for number, line in enumerate(lines, 1):
        table.add_row(str(number), line["item"], f"{line['amount']:.2f}", line["key"][:12] + "…", str(line["pid"]))
    console.print(table)

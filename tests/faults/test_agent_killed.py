"""T2: an agent that is killed again and again does everything once and ends as one that was never killed (R7, R24)."""

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from jianmu.memory import FileCheckpointer

AGENT = Path(__file__).with_name("killed_agent.py")


class Scene:
    """One agent's folder, and the fork server that runs it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.server = subprocess.Popen(
            [sys.executable, str(AGENT), str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def live(self, microseconds: int | None) -> str:
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(f"{'-' if microseconds is None else microseconds}\n")
        self.server.stdin.flush()
        return self.server.stdout.readline().strip()

    def effects(self) -> list[str]:
        return [line.split(" ", 1)[1] for line in (self.folder / "ledger.txt").read_text().splitlines()]

    def state(self) -> dict:
        return FileCheckpointer(self.folder / "checkpoints").get_checkpoint("agent")["state"]

    def close(self) -> None:
        with self.server:  # closes the pipes; the server ends when its input does
            pass


@pytest.fixture
def scenes(tmp_path):
    made: list[Scene] = []

    def make() -> Scene:
        made.append(Scene(tmp_path / f"scene-{len(made)}"))
        return made[-1]

    yield make
    for scene in made:
        scene.close()


def killed_until_done(scene: Scene, rng: random.Random, kills: int, longest: int) -> int:
    """Kill the agent at random moments until it is done or has been killed often enough; return the kills."""
    for count in range(kills):
        answer = scene.live(rng.randrange(1000, longest))
        assert answer in ("killed", "done"), answer
        if answer == "done":
            return count
    assert scene.live(None) == "done"
    return kills


def run_trial(scenes, kills_wanted: int) -> tuple[int, int]:
    straight = scenes()
    assert straight.live(None) == "done"
    rng, kills, runs = random.Random(42), 0, 0
    while kills < kills_wanted:
        scene = scenes()
        kills += killed_until_done(scene, rng, kills_wanted - kills, longest=60_000)
        runs += 1
        assert Counter(scene.effects()) == Counter(straight.effects())
        assert scene.effects() == straight.effects()
        assert scene.state() == straight.state()
        scene.close()
    return kills, runs


def test_three_hundred_kills_leave_no_trace(scenes):
    """T2, R24: the effects file and the final state equal the straight run's."""
    kills, runs = run_trial(scenes, 300)
    print(f"\nagent: {kills} kills in {runs} runs, no effect twice or missing")
    assert kills >= 300


@pytest.mark.proof
def test_three_thousand_kills_leave_no_trace(scenes):
    kills, runs = run_trial(scenes, 3000)
    print(f"\nagent: {kills} kills in {runs} runs, no effect twice or missing")

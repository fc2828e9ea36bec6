"""The laws of what a checkpointer may do beyond saving and loading; each is checked only where it is claimed."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from jianmu.errors import CheckpointNotFoundError, CheckpointSaveError, ConfigurationError, ThreadLockedError
from jianmu.memory.checkpoint.capabilities import (
    AsyncCheckpointer,
    DeleteCapable,
    ForkCapable,
    HistoryCapable,
    LockCapable,
    PruneCapable,
)
from jianmu.memory.checkpoint.envelope import make_checkpoint_envelope
from jianmu.serialization import same

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from jianmu.memory.checkpoint.protocol import CheckpointerProtocol, Envelope

# Names that a backend which joins, trims, folds, decodes, cuts or expands them would confuse with one another, or take
# for a path, a device, a pattern or a piece of a query.
HOSTILE_THREAD_IDS: tuple[str, ...] = (
    *("a", "A", "b", "aa", "Session-42", "session-42", "SESSION-42", "sEssion-42"),
    *(" ", "a ", " a", "a.", ".a", ".", "..", "...", "a\t", "a\n", "\n", "\x00", "a\x00", "\x7f", "\x1b[0m"),
    *("../a", "../../etc/passwd", "/a", "/", "a/b", "a/", "a//b", "a\\b", "\\", "..\\a", "C:\\a", "C:a", "~", "~a"),
    *("con", "CON", "nul", "NUL", "nul.txt", "com1", "lpt9", "aux.jsonl", "prn "),
    *("a.jsonl", "a.lock", "a.token", "a.tmp", "a.db", "a%2Fb", "a%2fb", "%41", "%61", "%", "%%", "a+b", "a%20"),
    *("*", "?", "a*", "a?", "[a]", "_", "a:b", "a::b", "a|b", "a;b", "a&b", "$a", "${a}", "{a}", "{}", "<a>", "#", "!"),
    *(
        "' OR '1'='1",
        "'; DROP TABLE checkpoints; --",
        '"',
        "`a`",
        "a--",
        "$.a",
        "$[0]",
        "a' || 'b",
        "KEYS *",
        "a\r\nDEL a",
    ),
    *("None", "null", "true", "0", "-1", "1e3", "NaN", "a=b", "a,b", "(a)", "@", "^", "="),
    *(
        "会话",
        "会话-42",
        "会話",
        "é",
        "e\u0301",
        "Å",
        "\u212b",
        "ﬁ",
        "fi",
        "ß",
        "ss",
        "İ",
        "i\u0307",
        "ı",
        "K",
        "\u212a",
    ),
    *("が", "か\u3099", "🎉", "🎊", "👩‍👩‍👧", "👩", "\u200b", "a\u200b", "\ufeff", "\u202ea", "𠀀", "\uffff"),
    *("x" * 300, "x" * 299 + "y", "X" * 300, "树" * 300, "树" * 299 + "木", "/" * 300, "😀" * 1000),
)


class AbilityLaws(ABC):
    """What history, fork, delete, prune, lock and asynchronous use have to do, whatever the backend is made of."""

    persistent = True

    @abstractmethod
    def open(self, folder: Path) -> CheckpointerProtocol:
        """Open the checkpointer that belongs to a folder; opening it again must find what was saved there."""

    def close(self, checkpointer: CheckpointerProtocol) -> None:
        """Give back what a checkpointer holds; by default its ``close`` is called, if it has one."""
        close: Callable[[], None] | None = getattr(checkpointer, "close", None)
        if close is not None:
            close()

    @contextmanager
    def opened(self, folder: Path) -> Generator[Any]:
        """Open a checkpointer for the length of a ``with`` block."""
        checkpointer = self.open(folder)
        try:
            yield checkpointer
        finally:
            self.close(checkpointer)

    # -- history --------------------------------------------------------------------------------------------------

    def test_lists_all_threads(self, tmp_path: Path) -> None:
        """R14: every thread that has checkpoints is listed once, under its own name, sorted."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, HistoryCapable):
                return
            assert checkpointer.list_threads() == []
            for thread_id in HOSTILE_THREAD_IDS:
                save(checkpointer, thread_id, 1)
                save(checkpointer, thread_id, 2)
            assert checkpointer.list_threads() == sorted(HOSTILE_THREAD_IDS)

    def test_lists_checkpoints_last_saved_first(self, tmp_path: Path) -> None:
        """R8: steps in the order they were saved, newest first, with the time of the save where it is kept."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, HistoryCapable):
                return
            for step in range(5):
                save(checkpointer, "t", step)
            listed = checkpointer.list_checkpoints("t")
            assert [info.step for info in listed] == [4, 3, 2, 1, 0]
            assert {info.thread_id for info in listed} == {"t"}
            moments = [info.created_at for info in listed if info.created_at is not None]
            assert moments == sorted(moments, reverse=True)
            assert all(abs(datetime.now(UTC) - moment) < timedelta(minutes=10) for moment in moments)
            assert checkpointer.list_checkpoints("unknown") == []

    def test_lists_as_much_as_is_asked_for(self, tmp_path: Path) -> None:
        """R8: ``limit`` and ``before`` narrow the listing, also together."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, HistoryCapable):
                return
            for step in (1, 2, 3, 4, 5, 6):
                save(checkpointer, "t", step)
            assert _steps(checkpointer, limit=2) == [6, 5]
            assert _steps(checkpointer, limit=0) == []
            assert _steps(checkpointer, limit=99) == [6, 5, 4, 3, 2, 1]
            assert _steps(checkpointer, before=3) == [2, 1]
            assert _steps(checkpointer, before=1) == []
            assert _steps(checkpointer, before=99, limit=1) == [6]
            assert _steps(checkpointer, before=5, limit=2) == [4, 3]

    def test_a_step_saved_again_counts_once(self, tmp_path: Path) -> None:
        """R8: a thread that was rewound shows each step where it was saved last."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, HistoryCapable):
                return
            for mark, step in enumerate((1, 2, 3, 2, 5, 5)):
                save(checkpointer, "t", step, mark=mark)
            assert _steps(checkpointer) == [5, 2, 3, 1]
            assert _steps(checkpointer, limit=3) == [5, 2, 3]
            marks = {step: load(checkpointer.get_checkpoint_at("t", step))["state"]["mark"] for step in (1, 2, 3, 5)}
            assert marks == {1: 0, 2: 3, 3: 2, 5: 5}

    def test_any_step_can_be_read(self, tmp_path: Path) -> None:
        """R10: every saved step comes back with all four fields, also to a second session."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, HistoryCapable):
                return
            saved = [save(checkpointer, "t", step) for step in range(30)]
            save(checkpointer, "other", 3, mark="other")
            read = [load(checkpointer.get_checkpoint_at("t", step)) for step in range(30)]
            assert same(read, saved)
            assert checkpointer.get_checkpoint_at("t", 30) is None
            assert checkpointer.get_checkpoint_at("t", -1) is None
            assert checkpointer.get_checkpoint_at("unknown", 3) is None
        if self.persistent:
            with self.opened(tmp_path) as again:
                assert same([load(again.get_checkpoint_at("t", step)) for step in range(30)], saved)

    def test_an_old_step_belongs_to_the_caller(self, tmp_path: Path) -> None:
        """R17: changing an old checkpoint that was read changes nothing that is stored."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, HistoryCapable):
                return
            saved = save(checkpointer, "t", 1)
            save(checkpointer, "t", 2)
            _spoil(checkpointer.get_checkpoint_at("t", 1))
            assert same(load(checkpointer.get_checkpoint_at("t", 1)), saved)

    # -- fork -----------------------------------------------------------------------------------------------------

    def test_a_fork_starts_from_one_step(self, tmp_path: Path) -> None:
        """R7: the new thread holds that checkpoint and no other; both go on without touching each other."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, ForkCapable):
                return
            saved = [save(checkpointer, "t", step) for step in range(6)]
            checkpointer.fork("t", 3, "new")
            assert same(load(checkpointer.get_checkpoint("new")), saved[3])
            assert same(load(checkpointer.get_checkpoint("t")), saved[5])
            if claims(checkpointer, HistoryCapable):
                assert _steps(checkpointer, "new") == [3]
            ahead = save(checkpointer, "new", 4, mark="fork")
            there = save(checkpointer, "t", 6, mark="source")
            assert same(load(checkpointer.get_checkpoint("new")), ahead)
            assert same(load(checkpointer.get_checkpoint("t")), there)

    def test_a_fork_needs_a_step_that_is_there(self, tmp_path: Path) -> None:
        """R18: an unknown thread or step is a clear error and makes nothing."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, ForkCapable):
                return
            save(checkpointer, "t", 1)
            refuses(CheckpointNotFoundError, lambda: checkpointer.fork("t", 2, "new"))
            refuses(CheckpointNotFoundError, lambda: checkpointer.fork("unknown", 1, "new"))
            assert checkpointer.get_checkpoint("new") is None

    def test_a_fork_never_overwrites(self, tmp_path: Path) -> None:
        """R18: a thread that has checkpoints is no target of a fork, itself least of all."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, ForkCapable):
                return
            saved = save(checkpointer, "t", 1)
            other = save(checkpointer, "other", 7)
            refuses(CheckpointSaveError, lambda: checkpointer.fork("t", 1, "other"))
            refuses(CheckpointSaveError, lambda: checkpointer.fork("t", 1, "t"))
            assert same(load(checkpointer.get_checkpoint("other")), other)
            assert same(load(checkpointer.get_checkpoint("t")), saved)

    # -- delete ---------------------------------------------------------------------------------------------------

    def test_a_deleted_thread_is_unknown(self, tmp_path: Path) -> None:
        """R6: nothing of it is left, the other threads are; it can be begun anew."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, DeleteCapable):
                return
            save(checkpointer, "t", 1)
            save(checkpointer, "t", 2)
            other = save(checkpointer, "other", 5)
            assert [checkpointer.delete_thread(name) for name in ("unknown", "t", "t")] == [False, True, False]
            assert checkpointer.get_checkpoint("t") is None
            assert same(load(checkpointer.get_checkpoint("other")), other)
            if claims(checkpointer, HistoryCapable):
                assert checkpointer.list_threads() == ["other"]
                assert (_steps(checkpointer), checkpointer.get_checkpoint_at("t", 1)) == ([], None)
            anew = save(checkpointer, "t", 1, mark="anew")
            assert same(load(checkpointer.get_checkpoint("t")), anew)
            if claims(checkpointer, HistoryCapable):
                assert _steps(checkpointer) == [1]

    # -- prune ----------------------------------------------------------------------------------------------------

    def test_prune_keeps_those_saved_last(self, tmp_path: Path) -> None:
        """R16: as many as asked for stay and can be read; the number of the others is returned."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, PruneCapable):
                return
            saved = [save(checkpointer, "t", step) for step in range(40)]
            other = save(checkpointer, "other", 1)
            assert [checkpointer.prune("t", keep_last=keep) for keep in (99, 40, 7, 7)] == [0, 0, 33, 0]
            assert same(load(checkpointer.get_checkpoint("t")), saved[-1])
            if claims(checkpointer, HistoryCapable):
                assert _steps(checkpointer) == list(range(39, 32, -1))
                assert same([load(checkpointer.get_checkpoint_at("t", n)) for n in range(33, 40)], saved[33:])
                assert checkpointer.get_checkpoint_at("t", 32) is None
            assert checkpointer.prune("t", keep_last=1) == 6
            assert same(load(checkpointer.get_checkpoint("t")), saved[-1])
            assert same(load(checkpointer.get_checkpoint("other")), other)
            assert checkpointer.prune("unknown", keep_last=1) == 0
            after = save(checkpointer, "t", 40)
            assert same(load(checkpointer.get_checkpoint("t")), after)

    def test_prune_by_age(self, tmp_path: Path) -> None:
        """R16: only what is older goes, but never the newest; with both arguments both must agree."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, PruneCapable):
                return
            for step in range(6):
                save(checkpointer, "t", step)
            time.sleep(0.02)  # between the two groups the backend's clock must move on
            between = datetime.now(UTC) - timedelta(milliseconds=10)
            for step in range(6, 9):
                save(checkpointer, "t", step)
            assert checkpointer.prune("t", older_than=timedelta(hours=1)) == 0
            assert checkpointer.prune("t", older_than=datetime.now(UTC) - timedelta(hours=1)) == 0
            assert checkpointer.prune("t", older_than=between, keep_last=9) == 0
            assert checkpointer.prune("t", older_than=between, keep_last=5) == 4
            assert checkpointer.prune("t", older_than=between, keep_last=1) == 2
            if claims(checkpointer, HistoryCapable):
                assert _steps(checkpointer) == [8, 7, 6]
            assert checkpointer.prune("t", older_than=datetime.now(UTC) + timedelta(hours=1)) == 2
            assert load(checkpointer.get_checkpoint("t"))["step"] == 8

    def test_prune_refuses_what_makes_no_sense(self, tmp_path: Path) -> None:
        """R20: nothing asked, fewer than one kept, or a moment without a timezone."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, PruneCapable):
                return
            save(checkpointer, "t", 1)
            saved = save(checkpointer, "t", 2)
            refuses(ConfigurationError, lambda: checkpointer.prune("t"))
            refuses(ConfigurationError, lambda: checkpointer.prune("t", keep_last=0))
            refuses(ConfigurationError, lambda: checkpointer.prune("t", older_than=datetime(2030, 1, 1)))  # noqa: DTZ001
            assert same(load(checkpointer.get_checkpoint("t")), saved)

    # -- lock -----------------------------------------------------------------------------------------------------

    def test_a_thread_has_one_holder(self, tmp_path: Path) -> None:
        """R15: whoever comes second is told so, with the thread's name; other threads are free."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, LockCapable):
                return
            with checkpointer.lock("t") as lease, checkpointer.lock("other"):
                assert lease.thread_id == "t"
                error = refuses(ThreadLockedError, lambda: _take(checkpointer, "t"))
                assert "'t'" in str(error)
                if self.persistent:
                    with self.opened(tmp_path) as second:
                        refuses(ThreadLockedError, lambda: _take(second, "t"))
            _take(checkpointer, "t")

    def test_each_lease_has_a_higher_token(self, tmp_path: Path) -> None:
        """R15: fencing numbers grow, over sessions, failures and deletions of the thread."""
        tokens: list[int] = []
        for _ in range(3):
            with self.opened(tmp_path) as checkpointer:
                if not claims(checkpointer, LockCapable):
                    return
                if not self.persistent:
                    tokens = []
                tokens += [_take(checkpointer, "t"), _take(checkpointer, "t")]
                refuses(ZeroDivisionError, lambda checkpointer=checkpointer: _fail_inside(checkpointer))
                tokens.append(_take(checkpointer, "t"))
                if claims(checkpointer, DeleteCapable):
                    save(checkpointer, "t", 1)
                    checkpointer.delete_thread("t")
                    tokens.append(_take(checkpointer, "t"))
                assert tokens == sorted(set(tokens))

    def test_the_holder_saves_and_nobody_else(self, tmp_path: Path) -> None:
        """R15: while a thread is held, saves of others are refused and its own pass; afterwards all may save."""
        if not self.persistent:
            return
        with self.opened(tmp_path) as holder, self.opened(tmp_path) as other:
            if not claims(holder, LockCapable):
                return
            save(other, "t", 1)
            with holder.lock("t"):
                saved = save(holder, "t", 2)
                refuses(ThreadLockedError, lambda: save(other, "t", 3, mark="refused"))
                assert same(load(other.get_checkpoint("t")), saved)
                save(other, "free", 1)
                save(holder, "t", 4)
            after = save(other, "t", 5)
            assert same(load(holder.get_checkpoint("t")), after)

    def test_maintenance_needs_no_lock(self, tmp_path: Path) -> None:
        """R15: others may read, prune and delete a thread that is held; its holder keeps it."""
        if not self.persistent:
            return
        with self.opened(tmp_path) as holder, self.opened(tmp_path) as other:
            if not claims(holder, LockCapable):
                return
            with holder.lock("t"):
                saved = [save(holder, "t", step) for step in range(3)]
                if claims(other, PruneCapable):
                    assert other.prune("t", keep_last=1) == 2
                assert same(load(other.get_checkpoint("t")), saved[-1])
                if claims(other, DeleteCapable):
                    assert other.delete_thread("t")
                refuses(ThreadLockedError, lambda: save(other, "t", 3))
                after = save(holder, "t", 4)
                assert same(load(other.get_checkpoint("t")), after)

    # -- asynchronous use -----------------------------------------------------------------------------------------

    def test_the_asynchronous_half_does_the_same(self, tmp_path: Path) -> None:
        """R6: what one half saves the other half loads; a failure is the same error."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, AsyncCheckpointer):
                return

            async def use() -> None:
                saved = make_checkpoint_envelope(1, {"n": 1}, {"root": "RUNNING"}, {"k": [1]})
                await checkpointer.asave_checkpoint("t", 1, saved["state"], saved["tree"], saved["runtime_metadata"])
                assert same(load(await checkpointer.aget_checkpoint("t")), saved)
                assert await checkpointer.aget_checkpoint("unknown") is None
                assert same(load(checkpointer.get_checkpoint("t")), saved)
                await checkpointer.asave_checkpoint("t", 2, {"bad": _unstorable()})

            error = refuses(CheckpointSaveError, lambda: asyncio.run(use()))
            assert "state.bad" in str(error)

    def test_asynchronous_saves_of_many_threads(self, tmp_path: Path) -> None:
        """R15: saves that run at the same time are all kept."""
        with self.opened(tmp_path) as checkpointer:
            if not claims(checkpointer, AsyncCheckpointer):
                return

            async def use() -> list[Envelope | None]:
                names = [f"t{n}" for n in range(20)]
                for step in range(3):
                    await asyncio.gather(*(checkpointer.asave_checkpoint(n, step, {"is": [n, step]}) for n in names))
                return await asyncio.gather(*(checkpointer.aget_checkpoint(n) for n in names))

            assert [load(found)["state"]["is"] for found in asyncio.run(use())] == [[f"t{n}", 2] for n in range(20)]


def claims(checkpointer: object, ability: type) -> bool:
    """Tell whether a checkpointer has all methods of an ability."""
    return isinstance(checkpointer, ability)


def save(checkpointer: CheckpointerProtocol, thread_id: str, step: int, mark: Any = None) -> Envelope:
    """Save a small growing chat and return the envelope that must come back."""
    state = {
        "messages": [{"role": "user", "content": f"{thread_id[:20]} {number}"} for number in range(step + 1)],
        "mark": mark,
        "counts": {"step": step, "even": step % 2 == 0},
    }
    envelope = make_checkpoint_envelope(step, state, {"root": "RUNNING", "root/ask": "SUCCESS"}, {"seen": [step]})
    checkpointer.save_checkpoint(thread_id, step, envelope["state"], envelope["tree"], envelope["runtime_metadata"])
    return envelope


def load(envelope: Envelope | None) -> Envelope:
    """Return the four fields that every envelope has."""
    assert envelope is not None, "there is no checkpoint"
    return {key: envelope[key] for key in ("step", "state", "tree", "runtime_metadata")}


def refuses(error: type[Exception], call: Callable[[], object]) -> Exception:
    """Return the error that a call raises; fail if it raises none or another one."""
    try:
        answer = call()
    except error as caught:
        return caught
    raise AssertionError(f"expected {error.__name__}, got {answer!r}")


def _steps(checkpointer: Any, thread_id: str = "t", **narrow: int) -> list[int]:
    return [info.step for info in checkpointer.list_checkpoints(thread_id, **narrow)]


def _spoil(envelope: Envelope | None) -> None:
    assert envelope is not None
    envelope["state"]["messages"].append("spoiled")
    envelope["state"]["messages"][0]["content"] = "spoiled"
    envelope["tree"]["root"] = "spoiled"
    envelope["runtime_metadata"]["seen"].append("spoiled")
    envelope["step"] = -99


def _take(checkpointer: LockCapable, thread_id: str) -> int:
    with checkpointer.lock(thread_id) as lease:
        return lease.token


def _fail_inside(checkpointer: LockCapable) -> None:
    with checkpointer.lock("t"):
        raise ZeroDivisionError


def _unstorable() -> Any:
    return (number for number in ())

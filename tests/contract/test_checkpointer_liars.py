"""The contract of checkpointers catches backends that break it, each by the law it breaks."""

from __future__ import annotations

import copy
import inspect
import json
import time
import unicodedata
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from jianmu.errors import CheckpointNotFoundError, CheckpointSaveError, ConfigurationError, ThreadLockedError
from jianmu.memory import InMemoryCheckpointer
from jianmu.testing.checkpointers import CheckpointerContract, checkpointer_contract

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_PLACES: dict[Any, dict[str, Any]] = {}


class Honest(InMemoryCheckpointer):
    """A backend that keeps every law; whoever opens the same folder finds the same data."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        place = _PLACES.setdefault((type(self), folder), {})
        for name in ("_threads", "_tokens", "_locked", "_guard", "_holders"):
            setattr(self, name, place.setdefault(name, {} if name == "_holders" else getattr(self, name, None)))
        self._holders: dict[str, Honest]

    def save_checkpoint(self, thread_id: str, step: int, *rest: Any, **named: Any) -> None:
        if self._holders.get(thread_id, self) is not self:
            raise ThreadLockedError("held", thread_id=thread_id)
        super().save_checkpoint(thread_id, step, *rest, **named)

    @contextmanager
    def lock(self, thread_id: str) -> Generator[Any]:
        with super().lock(thread_id) as lease:
            self._holders[thread_id] = self
            try:
                yield lease
            finally:
                del self._holders[thread_id]

    def put(self, thread_id: str, envelope: Any) -> None:
        """Store an envelope as it is."""
        step = envelope["step"] if isinstance(envelope, dict) and "step" in envelope else 0
        saved = next(iter(self._threads.get(thread_id, {}).values()), None)
        kind = type(saved) if saved is not None else _saved_type()
        self._threads.setdefault(thread_id, {}).pop(step, None)
        self._threads[thread_id][step] = kind(envelope, datetime.now(UTC))

    def stored(self, thread_id: str) -> list[Any]:
        """The envelopes of a thread as they are stored, the last saved first."""
        return [saved.envelope for _, saved in self._newest_first(thread_id)]


def _saved_type() -> Any:
    sample = InMemoryCheckpointer()
    sample.save_checkpoint("t", 1, {})
    return type(sample._threads["t"][1])


class Renaming(Honest):
    """Does everything under another name."""

    def name(self, thread_id: str) -> str:
        return thread_id

    def save_checkpoint(self, thread_id: str, step: int, *rest: Any, **named: Any) -> None:
        super().save_checkpoint(self.name(thread_id), step, *rest, **named)

    def get_checkpoint(self, thread_id: str) -> Any:
        return super().get_checkpoint(self.name(thread_id))


class Changing(Honest):
    """Stores something else than it was given."""

    def change(self, step: int, state: Any, tree: Any, metadata: Any) -> tuple[Any, Any, Any, Any]:
        return step, state, tree, metadata

    def save_checkpoint(
        self, thread_id: str, step: int, state_dump: Any, tree_state: Any = None, runtime_metadata: Any = None
    ) -> None:
        super().save_checkpoint(thread_id, *self.change(step, state_dump, tree_state, runtime_metadata))


# ------------------------------------------------------------------ names


class FoldsCase(Renaming):
    def name(self, thread_id: str) -> str:
        return thread_id.casefold()


class NormalisesText(Renaming):
    def name(self, thread_id: str) -> str:
        return unicodedata.normalize("NFKC", thread_id)


class CutsNames(Renaming):
    def name(self, thread_id: str) -> str:
        return thread_id[:255]


class StripsNames(Renaming):
    def name(self, thread_id: str) -> str:
        return thread_id.strip()


class DecodesNames(Renaming):
    def name(self, thread_id: str) -> str:
        return unquote(thread_id)


class TakesPaths(Renaming):
    def name(self, thread_id: str) -> str:
        return thread_id.rsplit("/", 1)[-1]


class StopsAtNul(Renaming):
    def name(self, thread_id: str) -> str:
        return thread_id.split("\x00")[0]


class CrashesOnNames(Renaming):
    def name(self, thread_id: str) -> str:
        if "\x00" in thread_id:
            raise ValueError("embedded null byte")
        return thread_id


class MatchesPatterns(Honest):
    def get_checkpoint(self, thread_id: str) -> Any:
        names = [name for name in self._threads if name.startswith(thread_id.removesuffix("*"))]
        return super().get_checkpoint(names[0] if thread_id.endswith("*") and names else thread_id)


class KeepsHundredThreads(Honest):
    def save_checkpoint(self, thread_id: str, step: int, *rest: Any, **named: Any) -> None:
        super().save_checkpoint(thread_id, step, *rest, **named)
        if len(self._threads) > 100:
            del self._threads[next(iter(self._threads))]


# ------------------------------------------------------------------ one checkpoint


class Formless:
    def __init__(self, folder: Path) -> None: ...
    def save_checkpoint(self, *args: Any) -> None: ...


class ForgetsMetadata(Changing):
    def change(self, step: int, state: Any, tree: Any, metadata: Any) -> Any:
        return step, state, tree, {}


class EmptyTreeForNone(Changing):
    def change(self, step: int, state: Any, tree: Any, metadata: Any) -> Any:
        return step, state, tree or {}, metadata


class RaisesWhenUnknown(Honest):
    def get_checkpoint(self, thread_id: str) -> Any:
        return super().get_checkpoint(thread_id) if self._threads[thread_id] else None


class SortsKeys(Changing):
    def change(self, step: int, state: Any, tree: Any, metadata: Any) -> Any:
        return step, json.loads(json.dumps(state, sort_keys=True)), tree, metadata


class NumbersAreFloats(Changing):
    def change(self, step: int, state: Any, tree: Any, metadata: Any) -> Any:
        return step, json.loads(json.dumps(state), parse_int=float), tree, metadata


class AsciiOnly(Changing):
    def change(self, step: int, state: Any, tree: Any, metadata: Any) -> Any:
        return step, json.loads(json.dumps(state, ensure_ascii=False).encode("ascii", "ignore")), tree, metadata


class ThirtyTwoBits(Changing):
    def change(self, step: int, state: Any, tree: Any, metadata: Any) -> Any:
        return step % 2**32, state, tree, metadata


class CutsLongTexts(Changing):
    def change(self, step: int, state: Any, tree: Any, metadata: Any) -> Any:
        return step, {k: v[:65536] if isinstance(v, str) else v for k, v in state.items()}, tree, metadata


# ------------------------------------------------------------------ one thread


class LosesTheLastSave(Honest):
    def get_checkpoint(self, thread_id: str) -> Any:
        stored = self.stored(thread_id)
        return copy.deepcopy(stored[1] if len(stored) > 1 else stored[0]) if stored else None


class AlwaysTheFirst(Honest):
    def get_checkpoint(self, thread_id: str) -> Any:
        return copy.deepcopy(self.stored(thread_id)[-1]) if self.stored(thread_id) else None


class HighestStepWins(Honest):
    def get_checkpoint(self, thread_id: str) -> Any:
        return copy.deepcopy(max(self.stored(thread_id), key=lambda envelope: envelope["step"], default=None))


class RefusesToGoBack(Honest):
    def save_checkpoint(self, thread_id: str, step: int, *rest: Any, **named: Any) -> None:
        if step > max(self._threads.get(thread_id, [-1])):
            super().save_checkpoint(thread_id, step, *rest, **named)


class MergesStates(Honest):
    def save_checkpoint(self, thread_id: str, step: int, state_dump: Any, *rest: Any, **named: Any) -> None:
        before = (self.get_checkpoint(thread_id) or {"state": {}})["state"]
        super().save_checkpoint(thread_id, step, {**before, **state_dump}, *rest, **named)


class ComparesLoosely(Honest):
    """Keeps the old value where the new one is equal: 1, 1.0 and True."""

    def save_checkpoint(self, thread_id: str, step: int, state_dump: Any, *rest: Any, **named: Any) -> None:
        before = (self.get_checkpoint(thread_id) or {"state": {}})["state"]
        kept = {
            key: before[key] if key in before and before[key] == value else value for key, value in state_dump.items()
        }
        super().save_checkpoint(thread_id, step, kept, *rest, **named)


class KeepsItsArguments(Honest):
    def save_checkpoint(
        self, thread_id: str, step: int, state_dump: Any, tree_state: Any = None, runtime_metadata: Any = None
    ) -> None:
        super().save_checkpoint(thread_id, step, state_dump, tree_state, runtime_metadata)
        self.stored(thread_id)[0]["state"] = state_dump


class CopiesTheOutsideOnly(KeepsItsArguments):
    def save_checkpoint(self, thread_id: str, step: int, state_dump: Any, *rest: Any, **named: Any) -> None:
        super().save_checkpoint(thread_id, step, dict(state_dump), *rest, **named)


class LendsItsData(Honest):
    def get_checkpoint(self, thread_id: str) -> Any:
        return self.stored(thread_id)[0] if self.stored(thread_id) else None


class ForgetsOnClosing(Honest):
    def close(self) -> None:
        self._threads.clear()


class RemembersWhatItRead(Honest):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.read: dict[str, Any] = {}

    def save_checkpoint(self, thread_id: str, step: int, *rest: Any, **named: Any) -> None:
        super().save_checkpoint(thread_id, step, *rest, **named)
        self.read.pop(thread_id, None)

    def get_checkpoint(self, thread_id: str) -> Any:
        if self.read.get(thread_id) is None:
            self.read[thread_id] = super().get_checkpoint(thread_id)
        return copy.deepcopy(self.read[thread_id])


# ------------------------------------------------------------------ several writers


class Tears(Honest):
    """Stores the parts of an envelope one after the other."""

    def save_checkpoint(
        self, thread_id: str, step: int, state_dump: Any, tree_state: Any = None, runtime_metadata: Any = None
    ) -> None:
        for _ in range(2):
            super().save_checkpoint(thread_id, step, state_dump, tree_state, runtime_metadata)
            envelope = {"step": step, "tree": tree_state, "runtime_metadata": {}}
            for key, value in copy.deepcopy(dict(state_dump)).items():
                envelope.setdefault("state", {})[key] = value
                self.put(thread_id, envelope)
                time.sleep(0.0005)
            envelope["runtime_metadata"] = runtime_metadata or {}


class SavesForTheThreadUsedLast(Honest):
    current = ""

    def save_checkpoint(self, thread_id: str, step: int, *rest: Any, **named: Any) -> None:
        self.current = thread_id
        time.sleep(0.001)
        super().save_checkpoint(self.current, step, *rest, **named)


# ------------------------------------------------------------------ failures


class SwallowsFailures(Honest):
    def save_checkpoint(self, *args: Any, **named: Any) -> None:
        with suppress(CheckpointSaveError):
            super().save_checkpoint(*args, **named)


class RaisesWhateverHappens(Honest):
    def save_checkpoint(self, thread_id: str, step: int, state_dump: Any, *rest: Any, **named: Any) -> None:
        copy.deepcopy(state_dump)
        super().save_checkpoint(thread_id, step, state_dump, *rest, **named)


class ForgetsOnFailure(Honest):
    def save_checkpoint(self, thread_id: str, *rest: Any, **named: Any) -> None:
        try:
            super().save_checkpoint(thread_id, *rest, **named)
        except CheckpointSaveError:
            self._threads.pop(thread_id, None)
            raise


class SaysNothingOfThePath(Honest):
    def save_checkpoint(self, thread_id: str, step: int, *rest: Any, **named: Any) -> None:
        try:
            super().save_checkpoint(thread_id, step, *rest, **named)
        except CheckpointSaveError as error:
            raise CheckpointSaveError("it failed", thread_id=thread_id, step=step) from error


class WritesJson(Changing):
    """Writes what JSON can hold and turns the rest into something else."""

    def change(self, step: int, state: Any, tree: Any, metadata: Any) -> Any:
        return step, json.loads(json.dumps(state, default=str)), tree, metadata


class TrustsMetadata(Changing):
    def change(self, step: int, state: Any, tree: Any, metadata: Any) -> Any:
        if json.loads(json.dumps(state, default=str)) != state:
            raise CheckpointSaveError("state is no JSON")
        return step, state, tree, json.loads(json.dumps(metadata, default=str, skipkeys=True))


class CrashesOnForeignData(Honest):
    def get_checkpoint(self, thread_id: str) -> Any:
        for envelope in self.stored(thread_id)[:1]:
            return copy.deepcopy(envelope) if envelope["step"] and envelope["state"] is not None else None
        return None


class BelievesForeignData(Honest):
    def get_checkpoint(self, thread_id: str) -> Any:
        return copy.deepcopy(self.stored(thread_id)[0]) if self.stored(thread_id) else None


class DropsUnknownFields(Honest):
    def get_checkpoint(self, thread_id: str) -> Any:
        found = super().get_checkpoint(thread_id)
        return found and {key: found[key] for key in ("step", "state", "tree", "runtime_metadata")}


# ------------------------------------------------------------------ history


class HidesThreads(Honest):
    def list_threads(self) -> list[str]:
        return [name for name in super().list_threads() if not name.startswith(".")]


class ListsInOrderOfSaving(Honest):
    def list_threads(self) -> list[str]:
        return list(self._threads)


class OldestFirst(Honest):
    def list_checkpoints(self, thread_id: str, **narrow: Any) -> Any:
        return super().list_checkpoints(thread_id, **narrow)[::-1]


class TimesAreLost(Honest):
    def list_checkpoints(self, thread_id: str, **narrow: Any) -> Any:
        infos = super().list_checkpoints(thread_id, **narrow)
        return [
            type(info)(thread_id=thread_id, step=info.step, created_at=datetime(1970, 1, 1, tzinfo=UTC))
            for info in infos
        ]


class SortsBySteps(Honest):
    def list_checkpoints(self, thread_id: str, *, limit: Any = None, before: Any = None) -> Any:
        infos = super().list_checkpoints(thread_id, before=before)
        return sorted(infos, key=lambda info: -info.step)[:limit]


class NoLimit(Honest):
    def list_checkpoints(self, thread_id: str, *, limit: Any = None, before: Any = None) -> Any:
        return super().list_checkpoints(thread_id, limit=limit or None, before=before)


class BeforeAndIncluding(Honest):
    def list_checkpoints(self, thread_id: str, *, limit: Any = None, before: Any = None) -> Any:
        return super().list_checkpoints(thread_id, limit=limit, before=None if before is None else before + 1)


class LimitsFirst(Honest):
    def list_checkpoints(self, thread_id: str, *, limit: Any = None, before: Any = None) -> Any:
        infos = super().list_checkpoints(thread_id, limit=limit)
        return [info for info in infos if before is None or info.step < before]


class TheFirstOfAStep(Honest):
    """Keeps each step as it was saved first, but gives the last save as the newest."""

    def get_checkpoint_at(self, thread_id: str, step: int) -> Any:
        return copy.deepcopy(_FIRSTS.get((id(self._threads), thread_id, step)))

    def save_checkpoint(self, thread_id: str, step: int, *rest: Any, **named: Any) -> None:
        super().save_checkpoint(thread_id, step, *rest, **named)
        _FIRSTS.setdefault((id(self._threads), thread_id, step), self.get_checkpoint(thread_id))


_FIRSTS: dict[Any, Any] = {}


class NearestStep(Honest):
    def get_checkpoint_at(self, thread_id: str, step: int) -> Any:
        steps = [known for known in self._threads.get(thread_id, {}) if known <= step]
        return super().get_checkpoint_at(thread_id, max(steps)) if steps else None


class LendsOldSteps(Honest):
    def get_checkpoint_at(self, thread_id: str, step: int) -> Any:
        saved = self._threads.get(thread_id, {}).get(step)
        return None if saved is None else saved.envelope


# ------------------------------------------------------------------ fork, delete, prune


class ForksAll(Honest):
    def fork(self, thread_id: str, step: int, new_thread_id: str) -> None:
        super().fork(thread_id, step, new_thread_id)
        self._threads[new_thread_id] = {
            known: saved for known, saved in self._threads[thread_id].items() if known <= step
        }


class ForksTheNewest(Honest):
    def fork(self, thread_id: str, step: int, new_thread_id: str) -> None:
        newest = self.list_checkpoints(thread_id)[:1]
        super().fork(thread_id, newest[0].step if newest else step, new_thread_id)


class ForksNothing(Honest):
    def fork(self, thread_id: str, step: int, new_thread_id: str) -> None:
        try:
            super().fork(thread_id, step, new_thread_id)
        except CheckpointNotFoundError:
            self.save_checkpoint(new_thread_id, step, {})


class ForksOver(Honest):
    def fork(self, thread_id: str, step: int, new_thread_id: str) -> None:
        if self.get_checkpoint_at(thread_id, step) is not None and new_thread_id != thread_id:
            self._threads.pop(new_thread_id, None)
        super().fork(thread_id, step, new_thread_id)


class DeletesNothing(Honest):
    def delete_thread(self, thread_id: str) -> bool:
        return thread_id in self._threads


class AlwaysDeleted(Honest):
    def delete_thread(self, thread_id: str) -> bool:
        return super().delete_thread(thread_id) or True


class DeletesTheNewest(Honest):
    def delete_thread(self, thread_id: str) -> bool:
        return bool(self._threads.get(thread_id, {}).popitem()) if self._threads.get(thread_id) else False


class DeletesAll(Honest):
    def delete_thread(self, thread_id: str) -> bool:
        found = super().delete_thread(thread_id)
        if found:
            self._threads.clear()
        return found


class PrunesOneMore(Honest):
    def prune(self, thread_id: str, *, keep_last: Any = None, older_than: Any = None) -> int:
        more = keep_last - 1 if keep_last is not None and keep_last > 1 else keep_last
        return super().prune(thread_id, keep_last=more, older_than=older_than)


class PrunesAllThatIsOld(Honest):
    def prune(self, thread_id: str, *, keep_last: Any = None, older_than: Any = None) -> int:
        dropped = super().prune(thread_id, keep_last=keep_last, older_than=older_than)
        if isinstance(older_than, datetime) and older_than > datetime.now(UTC):
            dropped += len(self._threads.pop(thread_id))
        return dropped


class EitherIsEnough(Honest):
    def prune(self, thread_id: str, *, keep_last: Any = None, older_than: Any = None) -> int:
        first = super().prune(thread_id, keep_last=keep_last) if keep_last is not None else 0
        return first + (super().prune(thread_id, older_than=older_than) if older_than is not None else 0)


class IgnoresAge(Honest):
    def prune(self, thread_id: str, *, keep_last: Any = None, older_than: Any = None) -> int:
        return super().prune(thread_id, keep_last=keep_last or 1)


class PrunesWithoutReason(Honest):
    def prune(self, thread_id: str, *, keep_last: Any = None, older_than: Any = None) -> int:
        try:
            return super().prune(thread_id, keep_last=keep_last, older_than=older_than)
        except ConfigurationError:
            return 0


# ------------------------------------------------------------------ lock


class LocksNothing(Honest):
    @contextmanager
    def lock(self, thread_id: str) -> Generator[Any]:
        with InMemoryCheckpointer().lock(thread_id) as lease:
            yield lease


class OneLockForAll(Honest):
    @contextmanager
    def lock(self, thread_id: str) -> Generator[Any]:
        with super().lock("all") as lease:
            yield type(lease)(thread_id=thread_id, token=lease.token)


class LocksPerSession(Honest):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._locked = set()


class TheSameToken(Honest):
    @contextmanager
    def lock(self, thread_id: str) -> Generator[Any]:
        with super().lock(thread_id) as lease:
            yield type(lease)(thread_id=thread_id, token=7)


class CountsFromOne(Honest):
    def close(self) -> None:
        self._tokens.clear()


class NeverGivesBack(Honest):
    @contextmanager
    def lock(self, thread_id: str) -> Generator[Any]:
        with super().lock(thread_id) as lease:
            yield lease
        self._locked.add(thread_id)


class OthersSaveToo(Honest):
    def save_checkpoint(self, *args: Any, **named: Any) -> None:
        InMemoryCheckpointer.save_checkpoint(self, *args, **named)


class NobodySaves(Honest):
    def save_checkpoint(self, thread_id: str, *rest: Any, **named: Any) -> None:
        if thread_id in self._holders:
            raise ThreadLockedError("held", thread_id=thread_id)
        super().save_checkpoint(thread_id, *rest, **named)


class MaintainsUnderLock(Honest):
    def prune(self, thread_id: str, **what: Any) -> int:
        with self.lock(thread_id):
            return super().prune(thread_id, **what)


# ------------------------------------------------------------------ asynchronous use


class AsyncForgets(Honest):
    async def asave_checkpoint(self, thread_id: str, step: int, state: Any, *rest: Any, **named: Any) -> None:
        await super().asave_checkpoint(thread_id, step, {**state, "n": None}, *rest, **named)


class AsyncTakesTurns(Honest):
    async def asave_checkpoint(self, thread_id: str, *rest: Any, **named: Any) -> None:
        if thread_id != "t19":
            await super().asave_checkpoint(thread_id, *rest, **named)


LIARS: dict[type, str] = {
    FoldsCase: "test_threads_never_mix",
    NormalisesText: "test_threads_never_mix",
    CutsNames: "test_threads_never_mix",
    StripsNames: "test_threads_never_mix",
    DecodesNames: "test_threads_never_mix",
    TakesPaths: "test_threads_never_mix",
    StopsAtNul: "test_threads_never_mix",
    CrashesOnNames: "test_threads_never_mix",
    MatchesPatterns: "test_threads_never_mix",
    KeepsHundredThreads: "test_many_threads",
    Formless: "test_has_the_two_methods",
    ForgetsMetadata: "test_gives_back_all_four_fields",
    EmptyTreeForNone: "test_omitted_fields_have_defaults",
    RaisesWhenUnknown: "test_an_unknown_thread_has_none",
    SortsKeys: "test_any_json_value_comes_back",
    NumbersAreFloats: "test_any_json_value_comes_back",
    AsciiOnly: "test_any_json_value_comes_back",
    ThirtyTwoBits: "test_any_step_comes_back",
    CutsLongTexts: "test_a_big_state_comes_back",
    LosesTheLastSave: "test_the_last_saved_wins",
    AlwaysTheFirst: "test_the_last_saved_wins",
    HighestStepWins: "test_a_rewound_thread_goes_on_from_what_was_saved_last",
    RefusesToGoBack: "test_a_rewound_thread_goes_on_from_what_was_saved_last",
    MergesStates: "test_whatever_changed_comes_back",
    ComparesLoosely: "test_whatever_changed_comes_back",
    KeepsItsArguments: "test_what_is_saved_is_a_copy",
    CopiesTheOutsideOnly: "test_what_is_saved_is_a_copy",
    LendsItsData: "test_what_is_read_belongs_to_the_caller",
    ForgetsOnClosing: "test_another_session_goes_on",
    RemembersWhatItRead: "test_another_session_goes_on",
    Tears: "test_writers_of_one_thread_leave_whole_checkpoints",
    SavesForTheThreadUsedLast: "test_writers_of_many_threads_lose_nothing",
    SwallowsFailures: "test_a_value_that_can_not_be_stored_changes_nothing",
    RaisesWhateverHappens: "test_a_value_that_can_not_be_stored_changes_nothing",
    ForgetsOnFailure: "test_a_value_that_can_not_be_stored_changes_nothing",
    SaysNothingOfThePath: "test_a_value_that_can_not_be_stored_changes_nothing",
    WritesJson: "test_a_value_comes_back_equal_or_is_refused",
    TrustsMetadata: "test_a_value_comes_back_equal_or_is_refused",
    CrashesOnForeignData: "test_foreign_data_is_no_checkpoint",
    BelievesForeignData: "test_foreign_data_is_no_checkpoint",
    DropsUnknownFields: "test_foreign_data_is_no_checkpoint",
    HidesThreads: "test_lists_all_threads",
    ListsInOrderOfSaving: "test_lists_all_threads",
    OldestFirst: "test_lists_checkpoints_last_saved_first",
    TimesAreLost: "test_lists_checkpoints_last_saved_first",
    SortsBySteps: "test_a_step_saved_again_counts_once",
    TheFirstOfAStep: "test_a_step_saved_again_counts_once",
    NoLimit: "test_lists_as_much_as_is_asked_for",
    BeforeAndIncluding: "test_lists_as_much_as_is_asked_for",
    LimitsFirst: "test_lists_as_much_as_is_asked_for",
    NearestStep: "test_any_step_can_be_read",
    LendsOldSteps: "test_an_old_step_belongs_to_the_caller",
    ForksAll: "test_a_fork_starts_from_one_step",
    ForksTheNewest: "test_a_fork_starts_from_one_step",
    ForksNothing: "test_a_fork_needs_a_step_that_is_there",
    ForksOver: "test_a_fork_never_overwrites",
    DeletesNothing: "test_a_deleted_thread_is_unknown",
    AlwaysDeleted: "test_a_deleted_thread_is_unknown",
    DeletesTheNewest: "test_a_deleted_thread_is_unknown",
    DeletesAll: "test_a_deleted_thread_is_unknown",
    PrunesOneMore: "test_prune_keeps_those_saved_last",
    PrunesAllThatIsOld: "test_prune_by_age",
    EitherIsEnough: "test_prune_by_age",
    IgnoresAge: "test_prune_by_age",
    PrunesWithoutReason: "test_prune_refuses_what_makes_no_sense",
    LocksNothing: "test_a_thread_has_one_holder",
    OneLockForAll: "test_a_thread_has_one_holder",
    LocksPerSession: "test_a_thread_has_one_holder",
    TheSameToken: "test_each_lease_has_a_higher_token",
    CountsFromOne: "test_each_lease_has_a_higher_token",
    NeverGivesBack: "test_each_lease_has_a_higher_token",
    OthersSaveToo: "test_the_holder_saves_and_nobody_else",
    NobodySaves: "test_the_holder_saves_and_nobody_else",
    MaintainsUnderLock: "test_maintenance_needs_no_lock",
    AsyncForgets: "test_the_asynchronous_half_does_the_same",
    AsyncTakesTurns: "test_asynchronous_saves_of_many_threads",
}


def _suite(backend: Any) -> CheckpointerContract:
    class Suite(CheckpointerContract):
        def open(self, folder: Path) -> Any:
            return backend(folder)

        def write_raw(self, folder: Path, thread_id: str, stored: Any) -> bool:
            backend(folder).put(thread_id, stored)
            return True

    return Suite()


def _laws() -> list[str]:
    return [name for name, _ in inspect.getmembers(CheckpointerContract) if name.startswith("test_")]


@pytest.mark.parametrize("law", _laws())
def test_an_honest_backend_passes(law: str, tmp_path: Path) -> None:
    getattr(_suite(Honest), law)(tmp_path)


@pytest.mark.parametrize("liar", LIARS, ids=lambda liar: liar.__name__)
def test_a_liar_is_caught(liar: Any, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, LookupError, TypeError, ValueError, ThreadLockedError)):
        getattr(_suite(liar), LIARS[liar])(tmp_path)


def test_every_law_has_a_liar() -> None:
    assert set(_laws()) == set(LIARS.values())


def test_an_ability_that_is_not_claimed_is_not_asked_for(tmp_path: Path) -> None:
    """A backend of two methods passes."""

    class Small:
        def __init__(self, folder: Path) -> None:
            self.inner = Honest(folder)
            self.save_checkpoint = self.inner.save_checkpoint
            self.get_checkpoint = self.inner.get_checkpoint

    checkpointer_contract(Small, tmp_path)


def test_one_call_checks_every_law(tmp_path: Path) -> None:
    """The function form names each law that is broken, and only those."""
    checkpointer_contract(Honest, tmp_path / "honest")
    with pytest.raises(ExceptionGroup, match="laws of the checkpointer contract are broken") as caught:
        checkpointer_contract(HighestStepWins, tmp_path / "liar")
    notes = [note for error in caught.value.exceptions for note in error.__notes__]
    assert any("test_a_rewound_thread_goes_on" in note for note in notes)
    assert not any("test_threads_never_mix" in note for note in notes)

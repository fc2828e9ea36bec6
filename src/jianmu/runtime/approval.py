"""Approval requests: kept with the checkpoint, decided once, by this process or another one.

They live in the runtime metadata of each checkpoint, as data: request id to the request and, once it is decided, its
decision. A decision is saved before the leaf that asked goes on.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import asdict
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from jianmu.behaviours.host import ApprovalRequest, Decision, Outcome
from jianmu.errors import CheckpointNotFoundError, RequestDecidedError, UnknownRequestError
from jianmu.memory.checkpoint.capabilities import LockCapable
from jianmu.runtime.journal import fingerprint
from jianmu.serialization import decode, encode

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from jianmu.memory.checkpoint.protocol import CheckpointerProtocol

_KEPT_IDS = 1000


class ApprovalDesk:
    """Reads and writes requests and decisions; saving them is the caller's.

    Args:
        thread_id: the run's thread; part of every request id.
        stored: ``{"requests": {...}, "closed": [...]}``; changed in place.
    """

    def __init__(self, thread_id: str, stored: MutableMapping[str, Any]) -> None:
        self._thread_id = thread_id
        self._requests: dict[str, dict[str, Any]] = stored.setdefault("requests", {})
        self._closed: list[str] = stored.setdefault("closed", [])

    def request_id(self, path: str, round_number: int, key: str) -> str:
        """Return the id of a request: the same after a restart."""
        text = "\0".join((self._thread_id, path, str(round_number), key))
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def ask(
        self, request_id: str, path: str, tool: str, args: dict[str, Any], expires_in: float | None, prompt: str
    ) -> tuple[ApprovalRequest, bool]:
        """File a request, or find the one that was filed before.

        Returns:
            The request, and whether it is new.

        Raises:
            SerializationError: the arguments are no data.
        """
        if request_id in self._requests:
            return self._request(request_id), False
        now = time.time()
        request = ApprovalRequest(
            id=request_id,
            tool=tool,
            args=args,
            args_hash=fingerprint(args, "args"),
            path=path,
            created_at=now,
            expires_at=None if expires_in is None else now + expires_in,
            prompt=prompt,
        )
        self._requests[request_id] = {"request": {**asdict(request), "args": encode(args, "args")}}
        return request, True

    def pending(self) -> tuple[ApprovalRequest, ...]:
        """Return the undecided requests, oldest first."""
        return tuple(self._request(key) for key, entry in self._requests.items() if "decision" not in entry)

    def decision(self, request_id: str) -> Decision | None:
        """Return what was decided, or None while it is open."""
        stored = self._requests[request_id].get("decision")
        return None if stored is None else Decision(**{**stored, "args": decode(stored["args"])})

    def decide(
        self,
        request: ApprovalRequest | str,
        outcome: Outcome,
        *,
        args_hash: str | None = None,
        args: dict[str, Any] | None = None,
        by: str = "",
        reason: str = "",
    ) -> Decision:
        """Note a decision.

        Args:
            request: the request, or its id together with ``args_hash``.
            outcome: what was decided.
            args_hash: fingerprint of the arguments that the decider saw.
            args: edited arguments to go on with.
            by: who decided.
            reason: why.

        Raises:
            UnknownRequestError: no request has this id, or the decider saw other arguments.
            RequestDecidedError: it was decided before, or it has expired.
        """
        request_id = request if isinstance(request, str) else request.id
        shown = args_hash if isinstance(request, str) else request.args_hash
        filed = self._open_request(request_id)
        if shown != filed.args_hash:
            raise UnknownRequestError(
                f"request {request_id!r} has args_hash {filed.args_hash!r}, the decision names {shown!r}: "
                "read the request again and decide on what it asks"
            )
        final = filed.args if args is None else args
        return self._close(
            Decision(
                request_id=request_id,
                outcome=outcome,
                args=final,
                args_hash=fingerprint(final, "args"),
                by=by,
                reason=reason,
            )
        )

    def expire(self, request_id: str) -> Decision:
        """Note that nobody decided in time."""
        filed = self._request(request_id)
        return self._close(
            Decision(
                request_id=request_id,
                outcome="expired",
                args=filed.args,
                args_hash=filed.args_hash,
                reason="nobody decided in time",
            )
        )

    def end_round(self, path: str) -> list[str]:
        """Drop a leaf's requests when its round ends.

        Returns:
            The ids of those that were still open: they are cancelled.
        """
        ended = [key for key, entry in self._requests.items() if entry["request"]["path"] == path]
        cancelled = [key for key in ended if "decision" not in self._requests[key]]
        for key in ended:
            del self._requests[key]
        self._closed.extend(ended)
        del self._closed[:-_KEPT_IDS]
        return cancelled

    def dump(self) -> dict[str, Any]:
        """Return a copy that later changes do not reach."""
        return {"requests": {key: dict(entry) for key, entry in self._requests.items()}, "closed": list(self._closed)}

    def _request(self, request_id: str) -> ApprovalRequest:
        stored = self._requests[request_id]["request"]
        return ApprovalRequest(**{**stored, "args": decode(stored["args"])})

    def _open_request(self, request_id: str) -> ApprovalRequest:
        if request_id in self._closed or (request_id in self._requests and self.decision(request_id) is not None):
            raise RequestDecidedError(f"request {request_id!r} was decided before; a decision counts once")
        if request_id not in self._requests:
            known = [request.id for request in self.pending()]
            raise UnknownRequestError(f"thread {self._thread_id!r} has no request {request_id!r}; open are {known}")
        request = self._request(request_id)
        if request.expires_at is not None and time.time() > request.expires_at:
            raise RequestDecidedError(f"request {request_id!r} has expired")
        return request

    def _close(self, decision: Decision) -> Decision:
        entry = self._requests[decision.request_id]
        entry["decision"] = {**asdict(decision), "args": encode(decision.args, "args")}
        return decision


def pending_requests(checkpointer: CheckpointerProtocol, thread_id: str) -> tuple[ApprovalRequest, ...]:
    """List the open approval requests of a thread that no runner works on.

    Args:
        checkpointer: where the thread is saved.
        thread_id: the thread.
    """
    envelope = checkpointer.get_checkpoint(thread_id)
    stored: dict[str, Any] = {} if envelope is None else envelope["runtime_metadata"].get("approvals", {})
    return ApprovalDesk(thread_id, stored).pending()


def record_decision(
    checkpointer: CheckpointerProtocol,
    thread_id: str,
    request: ApprovalRequest | str,
    *,
    approved: bool,
    args_hash: str | None = None,
    args: dict[str, Any] | None = None,
    by: str = "",
    reason: str = "",
) -> Decision:
    """Decide a request of a thread that no runner works on; the next run of the thread goes on with it.

    Args:
        checkpointer: where the thread is saved.
        thread_id: the thread.
        request: the request, or its id together with ``args_hash``.
        approved: approve or deny.
        args_hash: fingerprint of the arguments that the decider saw.
        args: edited arguments to go on with.
        by: who decides.
        reason: why, in words for the model.

    Raises:
        CheckpointNotFoundError: nothing is saved for the thread.
        ThreadLockedError: a runner works on the thread; tell it by its own ``approve`` or ``deny``.
        UnknownRequestError: no request has this id, or the decider saw other arguments.
        RequestDecidedError: it was decided before, or it has expired.
    """
    lock = checkpointer.lock(thread_id) if isinstance(checkpointer, LockCapable) else nullcontext()
    with lock:
        envelope = checkpointer.get_checkpoint(thread_id)
        if envelope is None:
            raise CheckpointNotFoundError("nothing is saved for this thread", thread_id=thread_id)
        metadata = cast("dict[str, Any]", envelope["runtime_metadata"])
        desk = ApprovalDesk(thread_id, metadata.setdefault("approvals", {}))
        outcome: Outcome = "approved" if approved else "denied"
        decision = desk.decide(request, outcome, args_hash=args_hash, args=args, by=by, reason=reason)
        checkpointer.save_checkpoint(thread_id, envelope["step"], envelope["state"], envelope["tree"], metadata)
    return decision

"""Rules that every run store keeps: idempotency keys, fences, the event that closes an interaction."""

from molecule_skill.errors import RunRefused
from molecule_skill.store.records import NewEvent, NewRun, RunRecord


def same_body(found: RunRecord, new: NewRun) -> RunRecord:
    """The run of an idempotency key, if the request is the same. Raises `RunRefused` otherwise."""
    if found.new.body_hash != new.body_hash:
        raise RunRefused(
            "idempotency-conflict",
            "this Idempotency-Key was used with another request; send each request with a key of its own",
            run_id=found.run_id,
        )
    return found


def closing(request_id: str, state: str, answered_by: str | None, at: float) -> NewEvent:
    """The event that tells how an interaction ended."""
    return NewEvent("interaction_closed", {"id": request_id, "state": state, "answered_by": answered_by}, at)


def lease_lost() -> RunRefused:
    """The refusal of a write by somebody who does not own the run any more."""
    return RunRefused("lease-lost", "the run is over or belongs to another process; nothing was written")

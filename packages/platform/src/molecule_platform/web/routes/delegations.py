"""Delegations, as their parties and operators make and close them."""

import re
from datetime import datetime, timedelta
from typing import Any

import msgspec

from molecule_platform.domain import delegation_views as views
from molecule_platform.domain import delegations as rules
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import invalid
from molecule_platform.ports.clock import Clock
from molecule_platform.services.messaging.delegations.delegation_creator import (
    CreatedDelegation,
    DelegationCreator,
    DelegationRequest,
)
from molecule_platform.services.messaging.delegations.delegation_service import (
    DelegationService,
    EvidenceItem,
)
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.paging import next_cursor
from molecule_platform.web.routes import delegations_schemas as shapes
from molecule_wire import ids, times

_KEY = re.compile(r"[\x20-\x7e]{1,255}")


class DelegationHandlers:
    """Serves /delegations and /workspaces/{id}/delegations."""

    def __init__(self, delegating: DelegationCreator, waiters: DelegationService, clock: Clock) -> None:
        self._delegating = delegating
        self._waiters = waiters
        self._clock = clock

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "delegation.create": self.create,
            "delegation.list": self.listing,
            "delegation.show": self.show,
            "delegation.cancel": self.cancel,
            "delegation.show-evidence": self.show_evidence,
            "delegation.record": self.record,
            "delegation.update": self.update,
        }

    async def create(self, call: Call) -> Response:
        """Ask for work; once for each key."""
        body: shapes.DelegateTask = call.body
        source_id, target_id = _ends(call, body.target_id)
        done = await self._delegating.delegate(
            DelegationRequest(
                principal=call.principal,
                source_id=source_id,
                target_id=target_id,
                task=body.task,
                deadline_at=self._deadline(body),
                idempotency_key=_key(call, body),
                deliverables=[msgspec.to_builtins(one) for one in body.deliverables],
                context=body.context,
                context_id=body.context_id,
                parent_id=body.parent_delegation_id,
                parent_message_id=body.parent_message_id,
                priority=body.priority,
                report=body.report,
                max_attempts=body.max_attempts,
                request_id=call.request_id,
                traceparent=call.request.traceparent,
                begins_trace=call.request.begins_trace,
            )
        )
        return _accepted(done)

    def _deadline(self, body: shapes.DelegateTask) -> datetime | None:
        if body.deadline_at is not None:
            return _time("deadline_at", body.deadline_at)
        if body.deadline_seconds is None:
            return None
        if not 0 < body.deadline_seconds <= rules.MAX_DEADLINE_SECONDS:
            most = rules.MAX_DEADLINE_SECONDS
            raise invalid("deadline_seconds", f"deadline_seconds is above 0 and at most {most}")
        return self._clock.now() + timedelta(seconds=body.deadline_seconds)

    async def listing(self, call: Call) -> Response:
        """A page of a workspace's delegations."""
        asked: shapes.ListDelegations = call.query_params
        found, cursor = await self._waiters.page(
            call.workspace, asked.role, asked.status, asked.limit, asked.cursor
        )
        return Response([views.list_view(one) for one in found], headers=next_cursor(cursor))

    async def show(self, call: Call) -> Response:
        """One delegation; with a wait, as soon as it has ended."""
        asked: shapes.AwaitDelegation = call.query_params
        delegation = await self._waiters.visible(call.principal, _name(call))
        if "id" in call.path and call.workspace.id not in (delegation.source_id, delegation.target_id):
            raise rules.not_found(delegation.id)
        return Response(await self._waiters.whole(call.principal, delegation.id, asked.wait))

    async def cancel(self, call: Call) -> Response:
        """Call one off."""
        body: shapes.CancelDelegation = call.body
        return Response(await self._waiters.cancel(call.principal, _name(call), body.reason))

    async def show_evidence(self, call: Call) -> Response:
        """Keep what somebody shows for a deliverable."""
        body: shapes.ShowEvidence = call.body
        shown = EvidenceItem(**msgspec.structs.asdict(body))
        return Response(
            {"evidence_id": await self._waiters.show_evidence(call.principal, _name(call), shown)}, 201
        )

    async def record(self, call: Call) -> Response:
        """Keep track of work that was handed over elsewhere."""
        body: shapes.RecordDelegation = call.body
        wish = DelegationRequest(call.principal, call.workspace.id, _workspace_id(body.target_id), body.task)
        made = await self._delegating.record(wish, body.delegation_id)
        return Response({"delegation_id": made.id, "status": "recorded"}, 202)

    async def update(self, call: Call) -> Response:
        """Close one by the word of an agent."""
        body: shapes.UpdateDelegation = call.body
        words, error = body.response_preview or "", body.error or ""
        closed = await self._waiters.update(call.workspace, _name(call), body.status, words, error)
        return Response({"status": closed.status, "delegation_id": closed.id})


def _ends(call: Call, named: str | None) -> tuple[str, str]:
    """Source and target. A workspace that posts to another one's path means that one as the target."""
    here, mine = call.workspace.id, call.principal.workspace_id
    target = None if named is None else _workspace_id(named)
    if mine is not None and mine != here:
        if target not in (None, here):
            sentence = f"this token is not that of {here}: delegate from your own workspace"
            raise ApiError("identity-mismatch", sentence)
        return mine, here
    if target is None:
        raise invalid("target_id", "name the workspace that is to do it in target_id")
    return here, target


def _workspace_id(given: str) -> str:
    if not ids.is_uuid(given):
        raise ApiError("invalid-id", f"{given[:64]} is not a workspace id: it is a UUID")
    return given.lower()


def _key(call: Call, body: shapes.DelegateTask) -> str | None:
    key = body.idempotency_key or call.headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise invalid("idempotency_key", "a key has 1 to 255 printable characters")
    return key


def _time(field: str, given: str) -> datetime:
    try:
        return times.parse_time(given)
    except ValueError as problem:
        raise invalid(field, str(problem)) from problem


def _name(call: Call) -> str:
    return call.path["delegation_id"]


def _accepted(done: CreatedDelegation) -> Response:
    made = done.delegation
    body: dict[str, Any] = {"delegation_id": made.id, "status": "delegated", "target_id": made.target_id}
    if done.replayed:
        repeated = body | {"status": made.status, "idempotent_hit": True}
        return Response(repeated, 200, (("idempotency-replayed", "true"),))
    body |= {"message_id": made.message_id, "deadline_at": times.format_time(made.deadline_at)}
    return Response(body if done.warning is None else body | {"warning": done.warning}, 202)

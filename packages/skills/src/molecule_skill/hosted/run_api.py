"""Views of runs for their callers: follow, answer, cancel, download. Everybody sees only what is theirs."""

from typing import Any

from molecule_skill import clocks
from molecule_skill.errors import RunRefused
from molecule_skill.hosted.host import Host
from molecule_skill.hosted.invocation import Answerer
from molecule_skill.hosted.run_reader import MAX_PAGE, RunReader, not_found
from molecule_skill.hosted.runs import Runs
from molecule_skill.interactions import AnswerInvalid, checked_answer
from molecule_skill.store.records import (
    ArtifactRecord,
    RequestRecord,
    RequestState,
    RunRecord,
)
from molecule_wire import JSON

APPROVER_SCOPE = "org.approve"


class RunViews:
    """The part of the gate that needs a run to exist."""

    def __init__(self, host: Host, runs: Runs) -> None:
        self._host = host
        self._runs = runs

    def reader(self, run_id: str, principal: str | None) -> RunReader:
        """See `Gate`."""
        return RunReader(self._host, self._runs, run_id, principal)

    async def run(self, run_id: str, principal: str | None) -> RunRecord:
        """See `Gate`."""
        return await self.reader(run_id, principal).record()

    async def run_of_key(self, principal: str, key: str) -> RunRecord | None:
        """See `Gate`."""
        return await self._host.store.run_of_key(self._host.agent.name, principal, key)

    async def runs(
        self, principal: str | None, *, limit: int = 50, before: str | None = None
    ) -> list[RunRecord]:
        """See `Gate`."""
        if before is not None:
            await self.run(before, principal)
        bounded = min(max(limit, 1), MAX_PAGE)
        return await self._host.store.runs_of(self._host.agent.name, principal, limit=bounded, before=before)

    async def cancel(self, run_id: str, principal: str | None) -> RunRecord:
        """See `Gate`."""
        record = await self.run(run_id, principal)
        if not record.state.is_final and not await self._runs.cancel(record):
            await self._host.store.ask_cancel(run_id)
        return await self.run(run_id, principal)

    async def artifact(self, run_id: str, principal: str | None, name: str) -> ArtifactRecord:
        """See `Gate`."""
        await self.run(run_id, principal)
        found = await self._host.store.artifact(run_id, name)
        if found is None:
            raise not_found("artifact", name)
        return found

    async def read_artifact(
        self, record: ArtifactRecord, *, start: int = 0, length: int | None = None
    ) -> bytes:
        """See `Gate`."""
        return await self._host.store.read_artifact(record.sha256, start=start, length=length)

    # Answers

    async def answer(
        self,
        request_id: str,
        by: Answerer,
        value: JSON = None,
        *,
        declined: bool = False,
        reason: str = "",
        kind: str | None = None,
        run_id: str | None = None,
    ) -> RequestState:
        """See `Gate`."""
        row = await self._host.store.request(request_id)
        run = None if row is None else await self._host.store.run(row.run_id)
        if row is None or run is None or not self._may_answer(run, by):
            raise not_found("interaction", request_id)
        if kind not in (None, row.kind) or run_id not in (None, row.run_id):
            raise not_found("interaction", request_id)
        answer: JSON = {"reason": reason} if declined else value
        state = RequestState.DENIED if declined else RequestState.ANSWERED
        at = clocks.CURRENT.get().time()
        if row.state is RequestState.PENDING and at >= row.expires_at:
            row = await self._close(row, RequestState.EXPIRED, None, None, at)
        if row.state is RequestState.PENDING:
            if not declined:
                self._check_answer(row, value)
            row = await self._close(row, state, answer, by.principal, at)
        return _settled(row, state, answer)

    def _may_answer(self, run: RunRecord, by: Answerer) -> bool:
        """The run's caller, or an approver of its organisation; never the agent itself."""
        if by.principal in self._host.settings.own_principals or run.new.agent != self._host.agent.name:
            return False
        if by.principal == run.new.principal:
            return True
        is_approver = by.principal.startswith("user:") and APPROVER_SCOPE in by.scopes
        return is_approver and run.new.org_id is not None and by.org_id == run.new.org_id

    def _check_answer(self, row: RequestRecord, value: JSON) -> None:
        waiter = self._host.waiters.get(row.id)
        try:
            if waiter is not None:
                waiter.interaction.value_of(value)
            else:
                checked_answer(row.kind, row.prompt, value)
        except AnswerInvalid as problem:
            errors: Any = problem.errors
            raise RunRefused("answer-invalid", str(problem), errors=errors) from problem

    async def _close(
        self, row: RequestRecord, state: RequestState, answer: JSON, by: str | None, at: float
    ) -> RequestRecord:
        closed = await self._host.store.close_request(row.id, state, answer=answer, answered_by=by, at=at)
        assert closed is not None
        self._host.notify(row.run_id)
        await self._wake(row.id, row.run_id)
        return closed

    async def _wake(self, request_id: str, run_id: str) -> None:
        waiter = self._host.waiters.get(request_id)
        if waiter is not None:
            waiter.wake()
        else:
            await self._runs.unpark(run_id)

    async def _cancel_asked(self) -> None:
        """Cancel the runs of this process that another one wants cancelled."""
        if not self._runs.active and not self._runs.parked:
            return
        for run_id in await self._host.store.cancellations(self._host.agent.name):
            record = await self._host.store.run(run_id)
            if record is not None:
                await self._runs.cancel(record)

    async def _wake_answered(self) -> None:
        """Wake those whose interaction was decided by another process, or whose time is over."""
        if not self._host.waiters and not self._runs.parked:
            return
        pending = set(await self._host.store.pending_requests(self._host.agent.name))
        for request_id, waiter in list(self._host.waiters.items()):
            if request_id not in pending:
                waiter.wake()
        now = clocks.CURRENT.get().time()
        for run_id in list(self._runs.parked):
            rows = await self._host.store.requests(run_id)
            if not any(row.state is RequestState.PENDING and row.expires_at > now for row in rows):
                await self._runs.unpark(run_id)


def _settled(row: RequestRecord, state: RequestState, answer: JSON) -> RequestState:
    """The state of a decided interaction for somebody who gave this answer. Raises `RunRefused`."""
    if row.state in (RequestState.EXPIRED, RequestState.CANCELLED):
        raise RunRefused(
            "interaction-closed", f"the interaction is over: {row.state.value}", state=row.state.value
        )
    is_same = row.state is state and (row.answer == answer or state is RequestState.DENIED)
    if not is_same:
        raise RunRefused(
            "already-answered", "the interaction has another answer already", state=row.state.value
        )
    return row.state

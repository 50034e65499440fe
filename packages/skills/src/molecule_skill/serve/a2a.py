"""A2A 1.0 and 0.3, JSON-RPC and HTTP+JSON, on `molecule_a2a.AgentApp`: a task is a run.

Every message that is accepted runs a skill once, answers what a run waits for, or is rejected.
"""

import asyncio
import logging
from contextvars import ContextVar
from typing import Any

from molecule_a2a import AgentApp, AgentRequest, Unauthenticated
from molecule_a2a.app import Accepted
from molecule_a2a.asgi import Send
from molecule_skill.auth import bearer_token
from molecule_skill.auth.platform import asserted_message_id
from molecule_skill.errors import RunRefused, SkillInvocationError, report_of
from molecule_skill.hosted import Answerer, Invocation
from molecule_skill.hosted.interface import Gate
from molecule_skill.ids import new_id
from molecule_skill.serve import messages, repetitions
from molecule_skill.serve.asgi import AsgiRequest
from molecule_skill.serve.projection import ASKING, Projection, begun, failure_metadata
from molecule_skill.serve.repetitions import MessageKey
from molecule_skill.store.records import RequestState, RunRecord
from molecule_wire import JSONObject, assertions
from molecule_wire.a2a import convert, errors, operations, tasks
from molecule_wire.a2a.server.bindings import AgentBusy
from molecule_wire.a2a.server.requests import SENDS
from molecule_wire.a2a.server.requests import Invocation as A2AOperation
from molecule_wire.a2a.server.service import Retention
from molecule_wire.a2a.server.task_log import Owner, TaskLog
from molecule_wire.a2a.server.turns import Turn

KEPT = Retention(seconds=24 * 3600, count=1000)
LISTED_RUNS = 1000

log = logging.getLogger("molecule_skill")


class _A2ACall:
    """The request at work, and who calls."""

    __slots__ = ("by", "identified", "request")

    def __init__(self, identified: tuple[Any, Answerer], request: AsgiRequest) -> None:
        self.identified, self.by = identified, identified[1]
        self.request = request


_call: ContextVar[_A2ACall] = ContextVar("molecule_skill_a2a_call")


class RunApp(AgentApp):
    """The A2A server of an agent whose tasks are kept as runs."""

    async def accept(self, request: AgentRequest) -> Accepted:
        """The caller is known by now; the body is read, and bounded, as that of any other request is."""
        call = _call.get()
        return Accepted(call.by.principal, await call.request.body())


class A2ATransport:
    """Serves the paths of A2A for one agent."""

    def __init__(self, agent: Any, gate: Gate) -> None:
        self._agent, self._gate = agent, gate
        self._open: dict[str, Projection] = {}
        """The runs that are not over, by id."""
        self._answering: dict[str, asyncio.Event] = {}
        """Set once the message that answers a run has begun its turn."""
        self._followers: set[asyncio.Task[None]] = set()
        self._app = RunApp(
            self._handle,
            agent.card().to_a2a(),
            url="http://localhost/",
            agent_id=agent.name,
            check_message=self._check_message,
            admit=self._admit,
            interrupt=self._interrupt,
            turn_seconds=None,
            retention=KEPT,
            new_task_id=lambda: new_id("run_"),
            prepare=self._prepare,
            announces_work=False,
            merges_chunks=False,
        )

    async def __call__(self, request: AsgiRequest, send: Send) -> None:
        """Answer one request. Raises AuthError."""
        identified = await self._gate.identify(bearer_token(request.headers), request.headers)
        _call.set(_A2ACall(identified, request))
        scope = {**request.scope, "path": request.path, "root_path": ""} if request.root else request.scope
        await self._app(scope, request.receive, send)

    async def stop(self) -> None:
        """Take no more messages; the gate has ended the runs."""
        for follower in tuple(self._followers):
            follower.cancel()
        await asyncio.gather(*self._followers, return_exceptions=True)
        await self._app.stop(0.1)

    # Callbacks of the app

    def _check_message(self, message_id: str) -> None:
        named = asserted_message_id.get()
        if named and message_id and message_id != named:
            sentence = f"{assertions.HEADER} is not valid: it was made for another message"
            raise Unauthenticated(sentence, "caller-assertion-invalid")

    def _admit(self) -> None:
        readiness = self._gate.readiness()
        if not readiness.ok:
            raise AgentBusy(f"the agent takes no work now: {'; '.join(readiness.reasons)}")

    def _interrupt(self, turn: Turn) -> None:
        self._spawn(self._gate.cancel(turn.log.id, turn.log.owner.principal))

    # Messages

    async def _handle(self, turn: Turn) -> None:
        """Run the skill that a new message asks for, or go on with a run that the message answered."""
        run_id = turn.log.id
        known = self._open.get(run_id)
        if known is not None:
            known.turn = turn
            released = self._answering.pop(run_id, None)
            if released is not None:
                released.set()
            return await _over(turn)
        call = _call.get()
        known_by = repetitions.known_by(turn.request, turn.log.owner, turn.headers)
        try:
            chosen = messages.choose_skill(self._agent, turn.message)
            await self._gate.open(
                Invocation(
                    transport="a2a",
                    skill=chosen.skill,
                    arguments=chosen.arguments,
                    headers=turn.headers,
                    session_id=turn.log.context_id,
                    idempotency_key=None if known_by is None else known_by.of_run,
                    traceparent=turn.headers.get("traceparent"),
                    run_id=run_id,
                    origin=_origin(turn, known_by),
                ),
                call.identified,
            )
        except Exception as problem:  # noqa: BLE001 - every refusal is the outcome of the message
            return _refuse(turn, problem)
        projection = self._open[run_id] = Projection(turn.log, call.request.base_url, turn)
        return await self._follow(projection, call.by.principal)

    async def _follow(self, projection: Projection, principal: str) -> None:
        """Tell what the run tells. Where it waits for a person the turn is over, and a task follows on."""
        run_id = projection.log.id
        reader = self._gate.reader(run_id, principal)
        while events := await reader.events(projection.seq, wait=None):
            for event in events:
                if event.kind == "interaction_closed" and (held := self._answering.get(run_id)) is not None:
                    await held.wait()
                projection.apply(event)
                if (
                    event.kind in ASKING
                    and projection.waits
                    and asyncio.current_task() not in self._followers
                ):
                    self._watch_cancel(projection, principal)
                    return self._spawn(self._follow(projection, principal))
            if projection.log.is_over or events[-1].kind == "run_finished":
                break
        record = await reader.record()
        if record.state.is_final:
            projection.finish(record, await reader.artifacts())
        self._open.pop(run_id, None)
        return None

    def _watch_cancel(self, projection: Projection, principal: str) -> None:
        """A task that waits has no turn that could be interrupted: its log tells that it was called off."""
        watched = projection.log

        def look() -> None:
            if watched.is_over and projection.log.state is tasks.TaskState.CANCELED:
                watched.listeners.remove(look)
                self._spawn(self._gate.cancel(watched.id, principal))
            elif watched.is_over:
                watched.listeners.remove(look)

        if not any(getattr(one, "__name__", "") == "look" for one in watched.listeners):
            watched.listeners.append(look)

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._followers.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._followers.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("a task could not be followed", exc_info=problem)

    # Before an operation

    async def _prepare(self, operation: A2AOperation, principal: str, headers: Any) -> None:
        """Bring back tasks of earlier processes, refuse files, and hand in the answer of a message."""
        request = operation.request
        if request.operation in SENDS:
            message = _modern(operation)
            self._check_modes(message)
            owner = Owner(principal, operation.tenant)
            known_by = repetitions.known_by(request, owner, headers)
            if request.task_id:
                await self._recall(request.task_id, principal)
                await self._answer(request, message, owner, known_by)
            elif known_by is not None:
                await self._recall_message(known_by, owner)
        elif request.operation is operations.LIST:
            for record in await self._gate.runs(principal, limit=LISTED_RUNS):
                if self._app.tasks.known_task(record.run_id) is None:
                    await self._adopt(record, principal)
        elif request.task_id:
            await self._recall(request.task_id, principal)

    def _check_modes(self, message: JSONObject) -> None:
        for part in messages.files_of(message):
            if part.get("mediaType") not in self._agent.input_modes:
                listed = ", ".join(self._agent.input_modes)
                sentence = (
                    f"this agent takes no files of the type {part.get('mediaType')!r}; it takes {listed}"
                )
                raise errors.protocol_error(errors.CONTENT_TYPE_NOT_SUPPORTED, sentence)

    async def _recall(self, task_id: str, principal: str) -> None:
        if self._app.tasks.known_task(task_id) is not None:
            return
        try:
            record = await self._gate.run(task_id, principal)
        except RunRefused:
            return
        await self._adopt(record, principal)

    async def _recall_message(self, known_by: MessageKey, owner: Owner) -> None:
        """A message that ran in an earlier process, or too long ago to be remembered, runs no second time."""
        record = await self._gate.run_of_key(owner.principal, known_by.of_run)
        if record is None or self._app.tasks.known_task(record.run_id) is not None:
            return
        await self._adopt(record, owner.principal)
        log = self._app.tasks.known_task(record.run_id)
        if log is None or log.owner != owner:
            return
        fingerprint = (record.new.origin or {}).get("fingerprint")
        self._go_on_with(log, known_by._replace(fingerprint=str(fingerprint or "")))

    async def _recall_answer(self, log: TaskLog, message: JSONObject, known_by: MessageKey) -> None:
        """A message that answered a run in an earlier process is known by what it said."""
        rows = await self._gate.reader(log.id, log.owner.principal).interactions()
        decided = [row for row in rows if row.answered_at is not None]
        last = max(decided, key=lambda row: row.answered_at or 0.0, default=None)
        if last is not None and messages.repeats(message, last):
            self._go_on_with(log, known_by)

    def _go_on_with(self, log: TaskLog, known_by: MessageKey) -> None:
        turn = self._app.tasks.recall(log, known_by.key, known_by.fingerprint)
        projection = self._open.get(log.id)
        if projection is not None and not turn.is_over:
            projection.turn = turn

    async def _adopt(self, record: RunRecord, principal: str) -> None:
        """Make the task of a run anew from what the run told."""
        run_id = record.run_id
        known = self._open.get(run_id)
        if known is not None:
            return self._app.tasks.adopt(known.log)
        tenant = str((record.new.origin or {}).get("tenant") or "")
        made = TaskLog(run_id, record.new.session_id or run_id, Owner(principal, tenant))
        made.merges_chunks = False
        made.append(begun(record, made))
        projection = Projection(made, _call.get().request.base_url)
        reader = self._gate.reader(run_id, principal)
        while projection.seq < record.last_seq:
            page = await reader.events(after=projection.seq)
            if not page:
                break
            for event in page:
                projection.apply(event)
        if record.state.is_final:
            projection.finish(record, await reader.artifacts())
        else:
            self._open[run_id] = projection
            self._watch_cancel(projection, principal)
            self._spawn(self._follow(projection, principal))
        return self._app.tasks.adopt(made)

    async def _answer(
        self, request: Any, message: JSONObject, owner: Owner, known_by: MessageKey | None
    ) -> None:
        """Hand the answer to the run before the message is accepted: a wrong one changes nothing."""
        run_id = str(request.task_id)
        projection, known = self._open.get(run_id), self._app.tasks.known_task(run_id)
        if known is None or known.owner != owner:
            return None
        if known_by is not None and not known.waits:
            before = self._app.tasks.known(known_by.key, known_by.fingerprint)
            return None if before is not None else await self._recall_answer(known, message, known_by)
        if projection is None or not known.waits:
            return None
        if request.context_id not in (None, known.context_id) or run_id in self._answering:
            return None
        self._admit()
        pending = [
            one
            for one in await self._gate.reader(run_id, owner.principal).interactions()
            if one.state is RequestState.PENDING
        ]
        if not pending:
            return None
        reason = messages.decline_of(message)
        value = None if reason is not None else messages.answer_in(message, pending[-1].kind)
        self._answering[run_id] = asyncio.Event()
        try:
            await self._gate.answer(
                pending[-1].id,
                _call.get().by,
                value,
                declined=reason is not None,
                reason=reason or "",
                run_id=run_id,
            )
        except RunRefused as problem:
            self._answering.pop(run_id).set()
            raise _answer_refused(problem) from problem


async def _over(turn: Turn) -> None:
    if not turn.is_over:
        ended = asyncio.Event()
        turn.on_end.append(ended.set)
        await ended.wait()


def _modern(operation: A2AOperation) -> JSONObject:
    message = operation.request.message or {}
    converter = convert.between(operation.request.dialect, "1.0")
    return converter.message(message) if converter else message


def _origin(turn: Turn, known_by: MessageKey | None) -> JSONObject:
    """What a later process must know: the message, its tenant, and what a repetition must be like."""
    origin: JSONObject = {"message": turn.message}
    if turn.log.owner.tenant:
        origin["tenant"] = turn.log.owner.tenant
    if known_by is not None and known_by.fingerprint:
        origin["fingerprint"] = known_by.fingerprint
    return origin


def _answer_refused(problem: RunRefused) -> errors.A2AError:
    if problem.code == "answer-invalid":
        return errors.invalid_params(errors.Violation("message.parts", str(problem)))
    return errors.protocol_error(errors.UNSUPPORTED_OPERATION, str(problem), code=problem.code)


def _refuse(turn: Turn, problem: Exception) -> None:
    """End a message that starts no run: rejected for what it asks, failed where it may come again."""
    if isinstance(problem, messages.NoSkillChosen):
        return turn.reject(str(problem), metadata=failure_metadata("skill-not-found", 404, {}))
    report = report_of(problem)
    metadata = failure_metadata(report.code, report.status, report.extras)
    if report.status == 503:
        return turn.fail(report.sentence, retry=True, metadata=metadata)
    if report.status >= 500 and not isinstance(problem, SkillInvocationError):
        log.error("task %s could not be started", turn.log.id, exc_info=problem)
        return turn.fail(report.sentence, metadata=metadata)
    return turn.reject(report.sentence, metadata=metadata)

"""Threads around the A2A server core.

A turn whose caller waits runs in the thread of its connection: to hand it to another one and to wait for it
took half of a short answer's time. Whoever ends it meanwhile (a cancel, its deadline) answers in its place.
All other turns run in threads of their own.
"""

import contextvars
import logging
import os
import threading
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeAlias

from molecule_agent.a2a_server import http_messages, payloads
from molecule_agent.a2a_server.workers import Workers
from molecule_agent.errors import Fail, NeedInput
from molecule_agent.handlers import message_in_hand
from molecule_agent.streamed_text import SendResult
from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import operations, sse
from molecule_wire.a2a.server import service
from molecule_wire.a2a.server.bindings import AgentBusy, Response
from molecule_wire.a2a.server.requests import Invocation
from molecule_wire.a2a.server.service import MESSAGE_ID_HEADER, Retention, TaskService
from molecule_wire.a2a.server.streams import KEEP_ALIVE_SECONDS, EventStream
from molecule_wire.a2a.server.task_log import Owner, TaskLog
from molecule_wire.a2a.server.turns import Turn
from molecule_wire.calls.inbound import CancelEvent

Run: TypeAlias = Callable[[], list[JSON] | None]
Answer: TypeAlias = Response | Iterator[bytes]
"""A whole response, or the frames of an event stream."""

log = logging.getLogger(__name__)


class TurnHandle:
    """The turn that a thread works on, for a handler that tells its answer while it makes it."""

    def __init__(self, turn: Turn, lock: threading.RLock) -> None:
        self.cancelled = CancelEvent()
        self._turn = turn
        self._lock = lock
        self._artifact_id = f"{turn.log.id}-{turn.first}"

    def tell(self, text: str, append: bool) -> SendResult:
        """Tell a piece of the answer."""
        return self.tell_artifact({"artifactId": self._artifact_id, "parts": [{"text": text}]}, append)

    def tell_artifact(self, artifact: JSONObject, append: bool = False) -> SendResult:
        """Tell an artifact, unless the turn is over."""
        with self._lock:
            if self._turn.is_over:
                return SendResult.OVER
            self._turn.artifact(artifact, append=append)
            return SendResult.TAKEN


in_hand: contextvars.ContextVar[TurnHandle | None] = contextvars.ContextVar("molecule_turn", default=None)

_LEGACY = Owner("\0legacy")


class Runs:
    """Starts handlers, at most so many at once, and waits for what they say. One lock guards the core."""

    def __init__(
        self,
        respond: payloads.Respond,
        max_concurrency: int,
        seconds: float | None = None,
        retention: Retention | None = None,
    ) -> None:
        self._respond = respond
        self._max = max_concurrency
        self._lock = threading.RLock()
        self._idle = threading.Condition(self._lock)
        self._running: set[Turn] = set()
        self._stopping = False
        self._workers = Workers()
        self.service = TaskService(
            lambda: datetime.now(UTC),
            secret=os.urandom(32),
            retention=retention,
            turn_seconds=seconds,
            admit=self._admit,
            announces_work=True,
        )

    def perform(self, invocation: Invocation, request: http_messages.ServerRequest) -> Answer:
        """Do what is asked. Raises A2AError or AgentBusy."""

        rpc, jobs = invocation.request, list[Callable[[], None]]()

        def start(turn: Turn) -> None:
            payload = payloads.of_message(rpc, request, turn)
            job = self._prepare(
                turn, lambda: self._parts(payload, request), request.header(MESSAGE_ID_HEADER)
            )
            jobs.append(job)
            if rpc.blocking and rpc.operation is operations.SEND:
                self._answer_early(turn, invocation, request)
            else:
                turn.work()

        with self._lock:
            done = self.service.perform(invocation, request.principal, request.headers, start)
        if isinstance(done, Turn):
            if jobs:
                jobs[0]()
            else:
                self._wait(done)
            with self._lock:
                return service.result(invocation, done)
        for job in jobs:
            self._workers.start(job)
        return self._frames(done) if isinstance(done, EventStream) else done

    def _answer_early(self, turn: Turn, invocation: Invocation, request: http_messages.ServerRequest) -> None:
        """Let the caller know when the turn is ended by another thread than the one that works on it."""
        worker = threading.get_ident()

        def answer() -> None:
            if threading.get_ident() != worker:
                self._workers.start(lambda: request.answer_early(service.result(invocation, turn)))

        turn.on_end.append(answer)

    def legacy(self, key: Hashable | None, body: JSONObject, request: http_messages.ServerRequest) -> object:
        """What the handler returned for a plain request, or a Fail."""
        with self._lock:
            turn = self.service.known(key)
            if turn is None:
                self._admit()
                task = self.service.new_task(_LEGACY, {})
                turn = begun = self.service.begin(task, {}, key, size=len(request.body))
                begun.work()
                self._workers.start(
                    self._prepare(begun, lambda: self._answer_plainly(begun, body, request), "")
                )
        self._wait(turn)
        if turn.expired:
            return _failure(TimeoutError())
        if isinstance(turn.result, Fail):
            self.service.forget(key)  # the platform tries again, and then the handler shall run again
        return turn.result

    def drain(self, seconds: float) -> None:
        """Start nothing more and wait for what runs."""
        with self._idle:
            self._stopping = True
            self._idle.wait_for(lambda: not self._running, seconds)

    # Running a handler

    def _admit(self) -> None:
        if self._stopping:
            raise AgentBusy("the agent is being stopped", "agent-stopping")
        if len(self._running) >= self._max:
            raise AgentBusy("the agent is at its capacity")

    def _prepare(self, turn: Turn, run: Run, message_id: str) -> Callable[[], None]:
        """What runs the handler, in any thread."""
        self._running.add(turn)
        hand = TurnHandle(turn, self._lock)
        turn.on_cancel.append(hand.cancelled.set)
        context = contextvars.copy_context()
        context.run(message_in_hand.set, message_id)
        return lambda: context.run(self._run, turn, run, hand)

    def _run(self, turn: Turn, run: Run, hand: TurnHandle) -> None:
        in_hand.set(hand)
        try:
            parts = run() or None
            self._end(turn, lambda: turn.complete(parts))
        except NeedInput as question:
            prompt = question.prompt
            self._end(turn, lambda: turn.ask(prompt))
        except Exception as error:
            turn.result = failure = _failure(error)
            log.error("the handler failed on %s: %s", turn.log.id, failure.text, exc_info=error)
            self._end(turn, lambda: turn.fail(failure.text, retry=failure.retry))
        finally:
            with self._idle:
                self._running.discard(turn)
                if not self._running:
                    self._idle.notify_all()

    def _end(self, turn: Turn, end: Callable[[], None]) -> None:
        with self._lock:
            if not turn.is_over:
                end()

    def _parts(self, payload: payloads.Payload, request: http_messages.ServerRequest) -> list[JSON]:
        return payloads.json_ready(payloads.parts_of(self._respond(payload, request)))

    def _answer_plainly(self, turn: Turn, body: JSONObject, request: http_messages.ServerRequest) -> None:
        turn.result = payloads.json_ready(self._respond(body, request))

    # Waiting for what it says

    def _wait(self, turn: Turn) -> None:
        with self._listening(turn.log) as changed:
            while not turn.is_over:
                changed.wait()

    def _frames(self, events: EventStream) -> Iterator[bytes]:
        is_over = False
        while not is_over:
            with self._listening(events.log) as changed:
                frames = events.take()
                if not frames and not events.is_over:
                    changed.wait(KEEP_ALIVE_SECONDS)
                    frames = events.take()
                is_over = events.is_over
            if frames or not is_over:
                yield frames or sse.KEEP_ALIVE

    def expire(self) -> None:
        """Fail the turns whose time is over; called again and again."""
        if self._running:
            with self._lock:
                for turn in self._running:
                    if not turn.is_over:
                        turn.expire(_failure(TimeoutError()).text)

    @contextmanager
    def _listening(self, task: TaskLog) -> Generator[threading.Condition]:
        """A condition that is told of every event of a task, with the lock held."""
        with self._lock:
            changed = threading.Condition(self._lock)
            task.listeners.append(changed.notify_all)
            try:
                yield changed
            finally:
                task.listeners.remove(changed.notify_all)


def _failure(error: Exception) -> Fail:
    """What others may know of an exception: the text of a Fail, else class and reference."""
    if isinstance(error, Fail):
        return error
    return Fail(f"internal error: {type(error).__name__} (ref {os.urandom(4).hex()})")

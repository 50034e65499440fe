"""`InboxDelivery`: messages by lease. None is lost, whatever dies; one may be handled twice."""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import requests

from molecule_agent import errors, handlers, leases
from molecule_agent.poll_interval import LONG_POLL_INTERVAL, PollPacer
from molecule_agent.streamed_text import SendResult, TextStream
from molecule_wire import JSONObject
from molecule_wire.calls import InboundMessage, Request, inbound, inbox, workspaces

if TYPE_CHECKING:
    from molecule_agent.client import RemoteAgentClient
    from molecule_agent.inbound import PollDelivery

IDLE_INTERVAL = 1.0
DRAIN_SECONDS = 5.0
INITIAL_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.2, 5.0
MAX_WAIT, MIN_LEASE, MAX_LEASE, MAX_LIMIT = 60.0, 10.0, 3600.0, 100

_REFUSALS = (errors.BadRequestError, errors.PayloadTooLargeError, errors.UnprocessableError)

_Turn: TypeAlias = Callable[[leases.HeldLease], bool]

log = logging.getLogger(__name__)


class InboxDelivery:
    """Leases messages, keeps the leases while the handler works, and settles them.

    A handler that raises gives its message back: the platform offers it again later, and puts it with the
    dead letters when that never ends. A handler must therefore bear a repeat (`message.lease.attempt`). With
    `raise Fail(text)` it ends the message instead.
    """

    def __init__(
        self,
        client: "RemoteAgentClient",
        *,
        wait: float = 25.0,
        lease: float = 60.0,
        limit: int = 10,
        concurrency: int = 1,
        interval: float = LONG_POLL_INTERVAL,
    ) -> None:
        _check("wait", wait, 0, MAX_WAIT)
        _check("lease", lease, MIN_LEASE, MAX_LEASE)
        _check("limit", limit, 1, MAX_LIMIT)
        _check("concurrency", concurrency, 1, MAX_LIMIT)
        self._client = client
        self._wait = wait
        self._lease = lease
        self._limit = limit
        self._concurrency = concurrency
        self._pace = PollPacer(max(interval, IDLE_INTERVAL), wait, eager=interval)
        self._worker = ""
        self._stopped = threading.Event()
        self._running = threading.Lock()
        self._runner = 0
        self._keeper: leases.LeaseRenewer | None = None
        self._fallback: PollDelivery | None = None

    @property
    def interval(self) -> float:
        """Seconds until the next lease call makes sense."""
        return self._fallback.interval if self._fallback else self._pace.interval

    def run_once(self, handler: handlers.MessageHandler) -> int:
        """Wait for messages, hand them to the handler and settle them; returns how many it handled."""
        with self._running:
            if self._stopped.is_set():
                return 0
            self._runner = threading.get_ident()
            try:
                return self._run_once(handler)
            finally:
                self._runner = 0

    def stop(self) -> None:
        """Start nothing more, wait for running handlers for 5 s at most, give the rest back."""
        self._stopped.set()
        if self._fallback:
            self._fallback.stop()
        if self._runner == threading.get_ident():
            return  # from the handler itself, or a signal in its thread: run_once gives the rest back
        renewer = self._keeper
        if renewer is None:
            return
        if not self._running.acquire(timeout=DRAIN_SECONDS):
            for held in renewer.unsettled():
                if not held.started:
                    renewer.release(held)
            return
        self._running.release()

    def _run_once(self, handler: handlers.MessageHandler) -> int:
        if self._fallback is None:
            try:
                return self._work(self._lease_messages(), handler)
            except errors.NotFoundError as error:
                if error.code == "workspace-not-found":
                    raise
                self._fall_back()
        assert self._fallback is not None
        return self._fallback.run_once(handler)

    def _lease_messages(self) -> list[InboundMessage]:
        self._worker = self._worker or self._client._worker_file.take_name()
        request = inbox.lease(
            self._client.workspace_id,
            limit=self._limit,
            wait=self._wait,
            lease=self._lease,
            worker=self._worker,
        )
        with self._pace.measured() as poll:
            leased = self._client._perform(request, inbox.read_leased)
            poll.found(len(leased.messages))
        return leased.messages

    def _fall_back(self) -> None:
        from molecule_agent import inbound as deliveries

        log.warning("the platform has no inbox to lease from; reading the activity log instead")
        self._fallback = deliveries.PollDelivery(self._client)

    def _work(self, messages: list[InboundMessage], handler: handlers.MessageHandler) -> int:
        if not messages:
            return 0

        def turn(held: leases.HeldLease) -> bool:
            return self._turn(renewer, held, handler)

        with leases.LeaseRenewer(self._client, self._lease, messages) as renewer:
            self._keeper = renewer
            try:
                return self._run_turns(renewer.unsettled(), turn)
            finally:
                self._keeper = None

    def _run_turns(self, held: list[leases.HeldLease], turn: _Turn) -> int:
        if self._concurrency == 1:
            return sum(turn(one) for one in held)
        from concurrent.futures import ThreadPoolExecutor

        def turns(group: list[leases.HeldLease]) -> int:
            return sum(turn(one) for one in group)

        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="molecule-turn") as pool:
            return sum(pool.map(turns, _by_context(held)))

    def _turn(
        self, renewer: leases.LeaseRenewer, held: leases.HeldLease, handler: handlers.MessageHandler
    ) -> bool:
        if self._stopped.is_set() or self._client.stopping:
            return False
        held.started = True
        with handlers.work.one():
            handled = self._handle(held, handler)
            renewer.settled(held)
        return handled

    def _handle(self, held: leases.HeldLease, handler: handlers.MessageHandler) -> bool:
        message = held.message
        if inbound.is_own_echo(message, self._client.workspace_id):
            self._settle(held, self._ack(held))
            return False
        if not held.lives(self._client._clock.monotonic()):
            log.warning("the lease of %s ended before its turn came", message.message_id)
            return False
        self._settle(held, self._outcome(held, handler))
        return True

    def _outcome(self, held: leases.HeldLease, handler: handlers.MessageHandler) -> Request:
        """Run the handler, tell its pieces as they come, and say how the message is settled."""
        message, workspace_id = held.message, self._client.workspace_id
        stream = TextStream(lambda text, append: self._tell(held, text, append))
        try:
            with stream:
                answer = handlers.call(handler, message, self._client, stream.write)
        except errors.NeedInput as question:
            state, prompt = "input-required", question.prompt
            return inbox.answer(
                workspace_id, message.message_id, text=prompt, lease_token=held.token, state=state
            )
        except handlers.Cancelled:
            return self._failed(held, "the work was called off")
        except Exception as error:  # noqa: BLE001 - whatever a handler raises, the message is given back
            failure = handlers.failure_of(message, error)
            return self._failed(held, failure.text, retryable=failure.retry, delay=failure.delay)
        if answer is None or message.is_reply or not (answer.all_parts or answer.artifacts):
            return self._ack(held)
        if stream.was_used and not stream.is_whole:
            answer = replace(answer, artifacts=[*answer.artifacts, _streamed(message, answer.text)])
        return inbox.answer_with(workspace_id, message.message_id, answer, lease_token=held.token)

    def _tell(self, held: leases.HeldLease, text: str, append: bool) -> SendResult:
        """Tell a piece of the answer while it is made."""
        message = held.message
        try:
            self._client.progress(message, artifact={**_streamed(message, text), "append": append})
        except errors.RateLimitedError:
            return SendResult.NOT_TAKEN
        except (errors.ConflictError, errors.NotFoundError, errors.GoneError):
            held.lose()
            return SendResult.OVER
        except Exception as error:  # noqa: BLE001 - the answer itself brings the whole text
            log.info("a piece of the answer to %s was not told: %s", message.message_id, error)
            return SendResult.UNKNOWN
        return SendResult.TAKEN

    def _ack(self, held: leases.HeldLease) -> Request:
        message_id = held.message.message_id
        return inbox.ack(self._client.workspace_id, message_id, lease_token=held.token)

    def _failed(
        self, held: leases.HeldLease, error: str, *, retryable: bool = False, delay: float | None = None
    ) -> Request:
        return inbox.fail(
            self._client.workspace_id,
            held.message.message_id,
            error=error,
            retryable=retryable,
            lease_token=held.token,
            delay_seconds=delay,
        )

    def _settle(self, held: leases.HeldLease, request: Request) -> None:
        """Send the outcome; while the platform is away, keep trying for as long as the lease lives.

        An answer that the platform cannot take, because it is too large for instance, is a failure of the
        message: the next attempt would bring the same. Where the lease is gone the last try tells whether
        the answer had arrived before.
        """
        pause = INITIAL_RETRY_SECONDS
        tried = refused = False
        while (lives := held.lives(self._client._clock.monotonic())) or tried:
            tried = True
            try:
                self._client._perform(request, workspaces.read_nothing)
                return
            except (errors.MoleculeError, requests.RequestException) as error:
                if not lives:
                    break
                if isinstance(error, _REFUSALS) and not refused:
                    log.error("the answer to %s was refused: %s", held.message.message_id, error)
                    request = self._failed(held, f"the platform refused the agent's answer: {error.message}")
                    refused = True
                    continue
                if not self._may_pass(error):
                    log.warning("the result of %s is dropped: %s", held.message.message_id, error)
                    return
                if contact := self._client._contact:
                    contact.was_lost_by(error)
            self._client._clock.sleep(pause)
            pause = min(pause * 2, MAX_RETRY_SECONDS)
        log.warning("the result of %s is dropped: its lease is lost", held.message.message_id)

    def _may_pass(self, error: Exception) -> bool:
        if isinstance(error, errors.AuthenticationError):
            return self._client._reauthenticator.reauthenticate(self._client.load_token()) is not None
        if isinstance(error, errors.ApiError):
            return error.status == 429 or error.status >= 500
        return not (self._stopped.is_set() or self._client.stopping)


def _streamed(message: InboundMessage, text: str) -> JSONObject:
    """The artifact in which an answer grows; each attempt begins it anew."""
    return {"artifactId": f"{message.message_id}-answer", "parts": [{"text": text}]}


def _by_context(held: list[leases.HeldLease]) -> list[list[leases.HeldLease]]:
    groups: dict[str, list[leases.HeldLease]] = {}
    for one in held:
        groups.setdefault(one.message.context_id or one.message.message_id, []).append(one)
    return list(groups.values())


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise errors.ConfigurationError(f"{name} must be between {least:g} and {most:g}, not {value:g}")

"""The run loop: heartbeat, handle what came in, look whether to stop, sleep, again; whatever goes wrong."""

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from molecule_agent import clocks, errors, handlers

if TYPE_CHECKING:
    from molecule_agent.client import RemoteAgentClient
    from molecule_agent.inbound import InboundDelivery

TaskSupplier: TypeAlias = Callable[[], "Mapping[str, object] | None"]

REPEAT_LOG_AFTER = 60.0
MAX_RETRY_SECONDS = 5.0
_REMEMBERED_LOGS = 100

log = logging.getLogger(__name__)


class Loop:
    """One run of an agent: a heartbeat loop, or with a handler and a delivery an agent loop."""

    def __init__(
        self,
        client: "RemoteAgentClient",
        task_supplier: TaskSupplier | None = None,
        handler: handlers.MessageHandler | None = None,
        delivery: "InboundDelivery | None" = None,
        *,
        stop_event: threading.Event | None = None,
        contact: "ReachabilityLog | None" = None,
    ) -> None:
        self._client = client
        self._supplier = task_supplier
        self._handler = handler
        self._delivery = delivery
        self._stop_event = stop_event
        self._contact = contact
        self._complaints = LogThrottle(client._clock)
        self._heartbeat = Timer(client._clock, client.heartbeat_interval)
        self._state_poll = Timer(client._clock, client.state_poll_interval)
        self._has_beaten = False
        self._status = ""
        self._report: Mapping[str, object] = {}

    def run(self, max_iterations: int | None = None) -> str:
        """Tick until there is a reason to end, and return it."""
        self._client._heartbeat_if_due, self._client._contact = self._beat_if_due, self._contact
        ticks = 0
        try:
            while True:
                if self._client._stopping.is_set() or (self._stop_event and self._stop_event.is_set()):
                    return "stopped"
                if max_iterations is not None and ticks >= max_iterations:
                    return "max_iterations"
                self._tick()
                if self._status:
                    return self._status
                ticks += 1
                self._sleep()
        finally:
            self._client._heartbeat_if_due = self._client._contact = None
            self._client._stopping.clear()
            self._stop_delivery()

    def _tick(self) -> None:
        self._guarded("task supplier", self._ask_supplier)
        self._beat_if_due()
        if self._status:
            return
        self._guarded("delivery", self._deliver)
        # With every heartbeat, whichever thread sent it, and more often where that was asked for.
        if self._state_poll.due() or self._has_beaten:
            self._state_poll.restart()
            self._has_beaten = False
            self._guarded("state poll", self._poll_state)

    def _ask_supplier(self) -> None:
        self._report = {}
        if self._supplier is not None:
            self._report = self._supplier() or {}

    def _beat_if_due(self) -> None:
        if self._heartbeat.due() or (self._contact and self._contact.is_lost):
            self._has_beaten = True
            self._guarded("heartbeat", self._beat)

    def _beat(self) -> None:
        task, active = self._report.get("current_task"), self._report.get("active_tasks")
        try:
            self._client.heartbeat(current_task=str(task or ""), active_tasks=_whole(active))
        except errors.GoneError:
            self._status = "removed"
        if self._contact:
            self._contact.regained()

    def _deliver(self) -> None:
        if self._delivery is not None and self._handler is not None:
            self._delivery.run_once(self._handler)

    def _poll_state(self) -> None:
        state = self._client.poll_state()
        if state.should_stop:
            self._status = state.status

    def _sleep(self) -> None:
        interval = self._client.heartbeat_interval
        between = getattr(self._delivery, "interval", None)
        if isinstance(between, int | float) and not isinstance(between, bool) and between > 0:
            interval = min(interval, float(between))
        if self._contact and self._contact.is_lost:
            interval = min(interval, MAX_RETRY_SECONDS)
        if self._stop_event is None:
            self._client._clock.sleep(interval)
        else:
            self._stop_event.wait(interval)
        self._heartbeat.slept(interval)
        self._state_poll.slept(interval)

    def _guarded(self, what: str, action: Callable[[], None]) -> None:
        try:
            action()
        except errors.AuthenticationError as error:
            self._complaints.say(f"{what}: {error}", cause=f"{what} {error.status} {error.code}")
            self._prove_again()
        except Exception as error:  # noqa: BLE001 - the loop outlives whatever a handler or the network does
            if self._contact and self._contact.was_lost_by(error):
                return
            cause = f"{what} {type(error).__name__} {getattr(error, 'code', '')}"
            self._complaints.say(f"{what}: {type(error).__name__}: {error}", cause=cause)

    def _prove_again(self) -> None:
        try:
            self._client._reauthenticator.reauthenticate(self._client.load_token())
        except Exception as error:  # noqa: BLE001 - as above; the next 401 tries again
            self._complaints.say(f"re-enrolment: {error}", cause=f"re-enrolment {type(error).__name__}")

    def _stop_delivery(self) -> None:
        if self._delivery is None:
            return
        try:
            self._delivery.stop()
        except Exception:
            log.exception("the delivery did not stop cleanly")


class ReachabilityLog:
    """Whether the platform can be reached, told to a person in one line when it changes."""

    def __init__(self, platform_url: str, say: Callable[[str], object]) -> None:
        self.is_lost = False
        self._platform_url = platform_url
        self._say = say
        self._lock = threading.Lock()  # heartbeats also come from the thread that keeps leases

    def was_lost_by(self, error: Exception) -> bool:
        """Whether an error means that the platform is away; the first one is told."""
        is_away = isinstance(error, (errors.PlatformUnreachableError, errors.PlatformTimeoutError)) or (
            isinstance(error, errors.ApiError) and error.status in (502, 503, 504)
        )
        with self._lock:
            if is_away and not self.is_lost:
                self.is_lost = True
                self._say(f"lost {self._platform_url}, trying again")
        return is_away

    def regained(self) -> None:
        """A call succeeded."""
        with self._lock:
            if self.is_lost:
                self.is_lost = False
                self._say(f"connected to {self._platform_url} again")


class Timer:
    """Whether an interval has passed, by the clock or by what was slept; the first time always."""

    def __init__(self, clock: clocks.Clock, interval: float) -> None:
        self._clock = clock
        self._interval = interval
        self._lock = threading.Lock()
        self._last: float | None = None
        self._slept = 0.0

    def slept(self, seconds: float) -> None:
        """Count a sleep, which a test's clock may not show."""
        with self._lock:
            self._slept += seconds

    def restart(self) -> None:
        """Begin the interval anew."""
        with self._lock:
            self._last, self._slept = self._clock.monotonic(), 0.0

    def due(self) -> bool:
        """Whether it is time; true also starts the next interval."""
        with self._lock:
            now = self._clock.monotonic()
            if self._last is not None and max(self._slept, now - self._last) < self._interval:
                return False
            self._last, self._slept = now, 0.0
            return True


class LogThrottle:
    """Logs a trouble once a minute however often it happens, and however it is worded."""

    def __init__(self, clock: clocks.Clock) -> None:
        self._clock = clock
        self._said: dict[str, float] = {}

    def say(self, text: str, *, cause: str) -> None:
        """Log a WARNING unless one of the same cause was logged within the last minute."""
        now = self._clock.monotonic()
        last = self._said.get(cause)
        if last is not None and now - last < REPEAT_LOG_AFTER:
            return
        if len(self._said) >= _REMEMBERED_LOGS:
            self._said.clear()
        self._said[cause] = now
        log.warning("%s", text)


def say(line: str) -> None:
    """Tell the person at the terminal something."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _whole(value: object) -> int:
    try:
        return int(value) if isinstance(value, int | float | str) else 0
    except (ValueError, OverflowError):
        return 0

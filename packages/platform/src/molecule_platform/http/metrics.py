"""Figures for Prometheus: counted here, read from the store when somebody asks."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from molecule_platform.domain.messages import STATUSES
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage
from molecule_platform.services.loops import Loops

_DURATIONS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60)
_WAITS = (0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60, 300, 1800, 7200, 86_400)


class Metrics:
    """The figures of one replica. See `api.pipeline.Observer` and `ports.measures.Measures`."""

    def __init__(self, storage: Storage, loops: Loops, clock: Clock) -> None:
        self._storage = storage
        self._loops = loops
        self._clock = clock
        self._registry = CollectorRegistry()
        for collector in (GCCollector, PlatformCollector, ProcessCollector):
            collector(registry=self._registry)
        self._requests = self._counter(
            "molecule_http_requests", "Requests answered.", "method", "path", "status"
        )
        self._durations = self._histogram(
            "molecule_http_request_duration_seconds", "How long requests took.", _DURATIONS, "method", "path"
        )
        self._by_route: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._sockets = self._gauge("molecule_websocket_connections_active", "WebSockets that are open.")
        self._messages = self._gauge("molecule_messages", "Messages by status.", "status")
        self._ticks = self._gauge("molecule_loop_last_tick_seconds", "Seconds since a loop ran.", "loop")
        self._waits = self._histogram(
            "molecule_message_wait_seconds", "How long a message waited until it was taken.", _WAITS
        )
        self._attempts = self._counter(
            "molecule_message_attempts", "Attempts to deliver, by outcome.", "outcome"
        )
        self._expired = self._counter("molecule_leases_expired", "Inbox leases that ran out.")
        self._phantoms = self._counter("molecule_phantom_busy", "Agents that were busy in name only.")

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)

    def request(self, method: str, path: str, status: int, seconds: float | None) -> None:
        """One request was answered."""
        counters = self._by_route.get((method, path, status))
        if counters is None:
            counters = self._requests.labels(method, path, status), self._durations.labels(method, path)
            self._by_route[method, path, status] = counters
        counters[0].inc()
        if seconds is not None:
            counters[1].observe(seconds)

    def socket(self, change: int) -> None:
        """A WebSocket opened (1) or closed (-1)."""
        self._sockets.inc(change)

    def taken(self, waited_seconds: float) -> None:
        """A message was taken."""
        self._waits.observe(waited_seconds)

    def attempt(self, outcome: str) -> None:
        """An attempt to deliver ended."""
        self._attempts.labels(outcome).inc()

    def lease_expired(self) -> None:
        """An inbox lease ran out."""
        self._expired.inc()

    def phantom_busy(self) -> None:
        """An agent was busy in name only."""
        self._phantoms.inc()

    async def text(self) -> bytes:
        """Everything, in the text format."""
        found = await self._storage.read(lambda tx: tx.mailbox.totals())
        for status in STATUSES:
            self._messages.labels(status).set(found.get(status, 0))
        now = self._clock.now()
        for loop in self._loops.each():
            if loop.last_tick_at is not None:
                self._ticks.labels(loop.name).set((now - loop.last_tick_at).total_seconds())
        return generate_latest(self._registry)

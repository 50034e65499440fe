"""Figures for Prometheus: counted here, read from the store when somebody asks."""

import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from molecule_platform.domain.messages import STATUSES
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage
from molecule_platform.services.support.periodic_tasks import PeriodicTasks

_DURATIONS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60)
_WAITS = (0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60, 300, 1800, 7200, 86_400)


class _Histogram:
    """How many lasted how long."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._many = [0] * (len(bounds) + 1)
        self._seconds = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self._many[bisect_left(self._bounds, seconds)] += 1
        self._seconds += seconds

    def show(self, family: HistogramMetricFamily, labels: Sequence[str] = ()) -> None:
        """Write them down as a histogram."""
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        reached = itertools.accumulate(self._many)
        family.add_metric(labels, list(zip(bounds, reached, strict=True)), self._seconds)


class Requests(Collector):
    """Requests by route: plain numbers while they come, figures when somebody asks."""

    def __init__(self) -> None:
        self._answered: dict[tuple[str, str, int], int] = defaultdict(int)
        self._durations: dict[tuple[str, str], _Histogram] = defaultdict(lambda: _Histogram(_DURATIONS))

    def count(self, method: str, path: str, status: int, seconds: float | None) -> None:
        """One more; a stream has no duration."""
        self._answered[method, path, status] += 1
        if seconds is not None:
            self._durations[method, path].add(seconds)

    def collect(self) -> Iterator[Metric]:
        """The figures so far."""
        answered = CounterMetricFamily(
            "molecule_http_requests", "Requests answered.", labels=("method", "path", "status")
        )
        for (method, path, status), many in self._answered.items():
            answered.add_metric((method, path, str(status)), many)
        yield answered
        durations = HistogramMetricFamily(
            "molecule_http_request_duration_seconds", "How long requests took.", labels=("method", "path")
        )
        for route, bars in self._durations.items():
            bars.show(durations, route)
        yield durations


class Deliveries(Collector):
    """Messages on their way to agents, counted in the same way."""

    def __init__(self) -> None:
        self.waits = _Histogram(_WAITS)
        self.attempts: dict[str, int] = {}

    def collect(self) -> Iterator[Metric]:
        """The figures so far."""
        waits = HistogramMetricFamily(
            "molecule_message_wait_seconds", "How long a message waited until it was taken."
        )
        self.waits.show(waits)
        yield waits
        attempts = CounterMetricFamily(
            "molecule_message_attempts", "Attempts to deliver, by outcome.", labels=("outcome",)
        )
        for outcome, many in self.attempts.items():
            attempts.add_metric((outcome,), many)
        yield attempts


class Metrics:
    """The figures of one replica. See `api.pipeline.Observer` and `ports.measures.Measures`."""

    def __init__(self, storage: Storage, loops: PeriodicTasks, clock: Clock) -> None:
        self._storage = storage
        self._loops = loops
        self._clock = clock
        self._registry = CollectorRegistry()
        for collector in (GCCollector, PlatformCollector, ProcessCollector):
            collector(registry=self._registry)
        self._requests = Requests()
        self._registry.register(self._requests)
        self._sockets = self._gauge("molecule_websocket_connections_active", "WebSockets that are open.")
        self._messages = self._gauge("molecule_messages", "Messages by status.", "status")
        self._ticks = self._gauge("molecule_loop_last_tick_seconds", "Seconds since a loop ran.", "loop")
        self._deliveries = Deliveries()
        self._registry.register(self._deliveries)
        self._expired = self._counter("molecule_leases_expired", "Inbox leases that ran out.")
        self._phantoms = self._counter("molecule_phantom_busy", "Agents that were busy in name only.")

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, registry=self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)

    def request(self, method: str, path: str, status: int, seconds: float | None) -> None:
        """One request was answered."""
        self._requests.count(method, path, status, seconds)

    def socket(self, change: int) -> None:
        """A WebSocket opened (1) or closed (-1)."""
        self._sockets.inc(change)

    def taken(self, waited_seconds: float) -> None:
        """A message was taken."""
        self._deliveries.waits.add(waited_seconds)

    def attempt(self, outcome: str) -> None:
        """An attempt to deliver ended."""
        attempts = self._deliveries.attempts
        attempts[outcome] = attempts.get(outcome, 0) + 1

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

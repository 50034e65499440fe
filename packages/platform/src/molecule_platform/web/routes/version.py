"""The house about itself: its version, its table as a document and as a page, its loops, its figures."""

from typing import Any

from molecule_platform import __version__
from molecule_platform.ports.clock import Clock
from molecule_platform.services.support.periodic_tasks import PeriodicTask, PeriodicTasks
from molecule_platform.web.pipeline import docs_page, openapi
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.route_table import TABLE
from molecule_platform.web.routes.metrics import Metrics
from molecule_wire import times

API = "1"
A2A_VERSIONS = ("1.0", "0.3")
_CSP = (
    "default-src 'none'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FEATURES = (
    "access-explain",
    "delegations",
    "events-replay",
    "inbox",
    "long-poll",
    "message-tree",
    "task-stream",
)


class VersionHandlers:
    """Serves /version, /openapi.json, /docs, /metrics and /admin/liveness."""

    def __init__(self, loops: PeriodicTasks, metrics: Metrics, clock: Clock) -> None:
        self._loops = loops
        self._metrics = metrics
        self._clock = clock
        self._document = openapi.document(TABLE, __version__)

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "version": self.version,
            "openapi": self.openapi,
            "docs": self.docs,
            "metrics": self.metrics,
            "liveness": self.liveness,
        }

    async def version(self, _call: Call) -> Response:
        """What this platform speaks and has."""
        spoken = {"version": __version__, "api": API, "a2a": list(A2A_VERSIONS), "features": list(FEATURES)}
        return Response(spoken)

    async def openapi(self, _call: Call) -> Response:
        """The route table for machines."""
        return Response(self._document)

    async def docs(self, _call: Call) -> Response:
        """The route table for people."""
        policy = (("content-security-policy", _CSP),)
        return Response(
            docs_page.page(TABLE, self._document).encode(), 200, policy, "text/html; charset=utf-8"
        )

    async def metrics(self, _call: Call) -> Response:
        """Figures for Prometheus."""
        return Response(await self._metrics.text(), 200, (), "text/plain; version=0.0.4; charset=utf-8")

    async def liveness(self, _call: Call) -> Response:
        """How the loops of this replica do."""
        return Response({"subsystems": {loop.name: self._told(loop) for loop in self._loops.each()}})

    def _told(self, loop: PeriodicTask) -> dict[str, Any]:
        now, at = self._clock.now(), loop.last_tick_at
        return {
            "last_tick_at": None if at is None else times.format_time(at),
            "seconds_ago": None if at is None else round((now - at).total_seconds(), 3),
            "restarts": loop.restarts,
            "ok": loop.is_well(now),
        }

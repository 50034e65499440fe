"""A running platform."""

import asyncio
from contextlib import AsyncExitStack

from molecule_a2a.asgi import Receive, Scope, Send
from molecule_platform.api.admission import AdmissionControl
from molecule_platform.api.exchange import HttpExchange
from molecule_platform.api.keyed import IdempotentHandler
from molecule_platform.api.limits import RateLimiter
from molecule_platform.api.open_requests import ConcurrencyLimiter
from molecule_platform.api.pipeline import Pipeline
from molecule_platform.app import doors, ground
from molecule_platform.app.ground import Resources, StartProblem
from molecule_platform.app.plugins import source_policy
from molecule_platform.app.staff import Services, build_services
from molecule_platform.domain import principals
from molecule_platform.egress import guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.gateway.doors.live import EventWebSocket
from molecule_platform.http.health import HealthHandlers
from molecule_platform.keys import texts
from molecule_platform.keys.sealing import KeyProblem
from molecule_platform.ports.bus import BusUnavailable
from molecule_platform.ports.log import Log
from molecule_platform.ports.provisioner import Provisioner
from molecule_platform.ports.storage import StorageDown
from molecule_platform.services.followers import EventSubscriptions
from molecule_platform.services.repeats import IdempotencyService, ResponseSealer
from molecule_platform.services.rotation import KeyCheck
from molecule_platform.settings import Settings
from molecule_platform.storage.schema import SchemaTooNew


class Platform:
    """A running platform, an ASGI application: open it, serve it, close it."""

    def __init__(self, ground: Resources, staff: Services, exits: AsyncExitStack) -> None:
        self._ground = ground
        self._staff = staff
        self._exits = exits
        self._health = HealthHandlers(ground.storage, KeyCheck(ground.storage, ground.keychain))
        followers = EventSubscriptions(
            ground.storage, ground.bells, ground.clock, ground.log, staff.feed, staff.identity
        )
        handlers = doors.build_handlers(ground, staff, self._health, followers)
        gate, edge = _gate(ground, staff), doors.edge(ground.settings)
        # What the operator says about the outer wall; the server knows it too.
        self.edge = edge
        self._pipeline = Pipeline(handlers, gate, ground.log, edge, doors.PAGES, staff.metrics)
        self._live = EventWebSocket(gate, followers, edge)

    @classmethod
    async def open(cls, settings: Settings, provisioner: Provisioner | None = None) -> "Platform":
        """Bring up everything the settings name. Raises `StartProblem`."""
        exits = AsyncExitStack()
        try:
            below = await ground.open_resources(settings, exits)
            outbound = Outbound(guard.agent_policy(settings.allow_private_urls))
            exits.push_async_callback(outbound.close)
            to_webhooks = Outbound(guard.caller_policy(settings.push_allow_private))
            exits.push_async_callback(to_webhooks.close)
            to_sources = Outbound(source_policy(settings))
            exits.push_async_callback(to_sources.close)
            house = cls(below, build_services(below, outbound, to_webhooks, to_sources, provisioner), exits)
            await house._start()
            return house
        except (StorageDown, SchemaTooNew, BusUnavailable, KeyProblem) as problem:
            await exits.aclose()
            raise StartProblem(str(problem)) from problem
        except BaseException:
            await exits.aclose()
            raise

    async def _start(self) -> None:
        staff, leave = self._staff, self._exits.push_async_callback
        await staff.signing.ensure()
        await staff.keys.refresh()
        await staff.feed.start()
        leave(staff.feed.stop)
        staff.heartbeats.start()
        leave(staff.heartbeats.stop)
        leave(staff.courier.stop)
        leave(staff.cancelling.stop)
        leave(staff.notifier.stop)
        leave(staff.lives.provisioning.close)
        recovery = asyncio.get_running_loop().create_task(staff.sweeps.recover())
        self._exits.callback(recovery.cancel)
        leave(staff.sweeps.goodbye)
        staff.loops.start()
        leave(staff.loops.stop)

    @property
    def log(self) -> Log:
        """Where faults are told."""
        return self._ground.log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request or WebSocket over ASGI."""
        if scope["type"] == "http":
            await self._pipeline(HttpExchange(scope, receive, send))
            return
        self._staff.metrics.socket(1)
        try:
            await self._live(scope, receive, send)
        finally:
            self._staff.metrics.socket(-1)

    async def login_url(self, base_url: str) -> str:
        """A fresh one-time link for the administrator, owner of the first organisation."""
        code, _expires_at = await self._staff.login.new_code(
            principals.ADMINISTRATOR, "owner", self._ground.org_id
        )
        return f"{base_url}/auth/login?code={code}"

    async def drain(self) -> None:
        """Say that no new work should come here, and let go of those who wait."""
        self._health.draining = True
        self._staff.feed.drain()
        self._staff.streams.stop()
        self._ground.bells.close()

    async def close(self) -> None:
        """Stop everything, last started first."""
        await self._exits.aclose()


def _gate(ground: Resources, staff: Services) -> AdmissionControl:
    settings, keyring = ground.settings, ground.keyring
    sealer = ResponseSealer(
        lambda text, place: texts.seal_text(keyring, text, place),
        lambda line, place: texts.open_text(keyring, line, place),
    )
    repeats = IdempotencyService(ground.storage, ground.bells, ground.clock, sealer, ground.replica_id)
    limits = RateLimiter(settings.rate_limit, settings.rate_limit_anon, lambda: staff.sweeps.living)
    open_requests = ConcurrencyLimiter(settings.max_open_requests)
    return AdmissionControl(
        staff.identity, staff.authority, limits, IdempotentHandler(repeats), open_requests
    )

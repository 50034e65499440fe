"""A running platform."""

import asyncio
from contextlib import AsyncExitStack

from molecule_a2a.asgi import Receive, Scope, Send
from molecule_platform.app import handlers as app_handlers
from molecule_platform.app import resources
from molecule_platform.app.plugin_services import source_policy
from molecule_platform.app.resources import Resources, StartProblem
from molecule_platform.app.services import Services, build_services
from molecule_platform.domain import principals
from molecule_platform.egress import guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.keys import sealed_text
from molecule_platform.keys.sealing import KeyProblem
from molecule_platform.ports.bus import BusUnavailable
from molecule_platform.ports.log import Log
from molecule_platform.ports.provisioner import Provisioner
from molecule_platform.ports.storage import StorageDown
from molecule_platform.services.events.subscriptions import EventSubscriptions
from molecule_platform.services.keys.key_rotation import KeyCheck
from molecule_platform.services.support.idempotency import IdempotencyService, ResponseSealer
from molecule_platform.settings import Settings
from molecule_platform.storage.schema import UnknownSchema
from molecule_platform.web.exchange import HttpExchange
from molecule_platform.web.pipeline.authentication import AdmissionControl
from molecule_platform.web.pipeline.concurrency_limits import ConcurrencyLimiter
from molecule_platform.web.pipeline.idempotent_handler import IdempotentHandler
from molecule_platform.web.pipeline.pipeline import Pipeline
from molecule_platform.web.pipeline.rate_limits import RateLimiter
from molecule_platform.web.routes.health import HealthHandlers
from molecule_platform.web.streams.websocket import EventWebSocket


class Platform:
    """A running platform, an ASGI application: open it, serve it, close it."""

    def __init__(self, resources: Resources, services: Services, exits: AsyncExitStack) -> None:
        self._resources = resources
        self._services = services
        self._exits = exits
        self._health = HealthHandlers(resources.storage, KeyCheck(resources.storage, resources.keychain))
        followers = EventSubscriptions(
            resources.storage,
            resources.signals,
            resources.clock,
            resources.log,
            services.feed,
            services.identity,
        )
        handlers = app_handlers.build_handlers(resources, services, self._health, followers)
        gate, edge = _gate(resources, services), app_handlers.edge(resources.settings)
        # What the operator says about the outer wall; the server knows it too.
        self.edge = edge
        self._pipeline = Pipeline(handlers, gate, resources.log, edge, app_handlers.PAGES, services.metrics)
        self._live = EventWebSocket(gate, followers, edge)

    @classmethod
    async def open(cls, settings: Settings, provisioner: Provisioner | None = None) -> "Platform":
        """Bring up everything the settings name. Raises `StartProblem`."""
        exits = AsyncExitStack()
        try:
            below = await resources.open_resources(settings, exits)
            outbound = Outbound(guard.agent_policy(settings.allow_private_urls))
            exits.push_async_callback(outbound.close)
            to_webhooks = Outbound(guard.caller_policy(settings.push_allow_private))
            exits.push_async_callback(to_webhooks.close)
            to_sources = Outbound(source_policy(settings))
            exits.push_async_callback(to_sources.close)
            platform = cls(
                below, build_services(below, outbound, to_webhooks, to_sources, provisioner), exits
            )
            await platform._start()
            return platform
        except (StorageDown, UnknownSchema, BusUnavailable, KeyProblem) as problem:
            await exits.aclose()
            raise StartProblem(str(problem)) from problem
        except BaseException:
            await exits.aclose()
            raise

    async def _start(self) -> None:
        services, leave = self._services, self._exits.push_async_callback
        await services.signing.ensure()
        await services.keys.refresh()
        await services.feed.start()
        leave(services.feed.stop)
        services.heartbeats.start()
        leave(services.heartbeats.stop)
        leave(services.dispatcher.stop)
        leave(services.cancellation.stop)
        leave(services.notifier.stop)
        leave(services.lifecycle_services.provisioning.close)
        recovery = asyncio.get_running_loop().create_task(services.sweeps.recover())
        self._exits.callback(recovery.cancel)
        leave(services.sweeps.goodbye)
        services.loops.start()
        leave(services.loops.stop)

    @property
    def log(self) -> Log:
        """Where faults are told."""
        return self._resources.log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request or WebSocket over ASGI."""
        if scope["type"] == "http":
            await self._pipeline(HttpExchange(scope, receive, send))
            return
        self._services.metrics.socket(1)
        try:
            await self._live(scope, receive, send)
        finally:
            self._services.metrics.socket(-1)

    async def login_url(self, base_url: str) -> str:
        """A fresh one-time link for the administrator, owner of the first organisation."""
        code, _expires_at = await self._services.login.new_code(
            principals.ADMINISTRATOR, "owner", self._resources.org_id
        )
        return f"{base_url}/auth/login?code={code}"

    async def drain(self) -> None:
        """Say that no new work should come here, and let go of those who wait."""
        self._health.draining = True
        self._services.feed.drain()
        self._services.streams.stop()
        self._resources.signals.close()

    async def close(self) -> None:
        """Stop everything, last started first."""
        await self._exits.aclose()


def _gate(resources: Resources, services: Services) -> AdmissionControl:
    settings, keyring = resources.settings, resources.keyring
    sealer = ResponseSealer(
        lambda text, place: sealed_text.seal_text(keyring, text, place),
        lambda line, place: sealed_text.open_text(keyring, line, place),
    )
    idempotency = IdempotencyService(
        resources.storage, resources.signals, resources.clock, sealer, resources.replica_id
    )
    limits = RateLimiter(settings.rate_limit, settings.rate_limit_anon, lambda: services.sweeps.living)
    open_requests = ConcurrencyLimiter(settings.max_open_requests)
    return AdmissionControl(
        services.identity, services.authority, limits, IdempotentHandler(idempotency), open_requests
    )

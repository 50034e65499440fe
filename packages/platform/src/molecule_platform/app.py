"""The composition root: settings → adapters → services → ASGI. The order of the house, and no logic."""

import os
import random
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog

from molecule_platform.api.calls import Handler
from molecule_platform.api.pipeline import Edge, Pipeline, Receive, Scope, Send
from molecule_platform.bus.memory import MemoryBus
from molecule_platform.bus.nats import NatsBus
from molecule_platform.domain import credentials
from molecule_platform.domain.refusals import Refusal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.egress import guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.gateway.doors.a2a import A2aDoor
from molecule_platform.gateway.doors.activity import ActivityDoors
from molecule_platform.gateway.doors.heartbeat import HeartbeatDoor
from molecule_platform.gateway.doors.inbox import InboxDoors
from molecule_platform.gateway.doors.live import LiveDoor
from molecule_platform.gateway.links.push import PushLink
from molecule_platform.http.access import AccessRoutes
from molecule_platform.http.events import EventRoutes
from molecule_platform.http.health import HealthRoutes
from molecule_platform.http.login import LoginRoutes
from molecule_platform.http.messages import MessageRoutes
from molecule_platform.http.registry import RegistryRoutes
from molecule_platform.http.secrets import SecretRoutes
from molecule_platform.http.static import Pages
from molecule_platform.http.tokens import TokenRoutes
from molecule_platform.http.workspaces import WorkspaceRoutes
from molecule_platform.keys import texts
from molecule_platform.keys.sealing import KeyProblem, Keyring, Sealed, load_keyring
from molecule_platform.ports.bus import Bus, BusUnavailable
from molecule_platform.ports.people import Org
from molecule_platform.ports.storage import Storage, StorageDown, Transaction
from molecule_platform.services import registration
from molecule_platform.services.access import Access
from molecule_platform.services.activity import Activity
from molecule_platform.services.authority import Authority
from molecule_platform.services.bells import Bells
from molecule_platform.services.courier import Courier
from molecule_platform.services.delivery import Delivery, DeliveryLimits
from molecule_platform.services.directory import Directory
from molecule_platform.services.feed import Feed
from molecule_platform.services.heartbeats import Heartbeats
from molecule_platform.services.identity import Identity
from molecule_platform.services.inbox import Inbox
from molecule_platform.services.lifecycle import Lifecycle
from molecule_platform.services.login import Login
from molecule_platform.services.registration import ClaimRules, Registration
from molecule_platform.services.replies import Replies
from molecule_platform.services.secrets import Sealing, SecretService
from molecule_platform.services.sweeps import Sweeps
from molecule_platform.services.tasks import Tasks
from molecule_platform.services.tokens import Tokens
from molecule_platform.settings import Settings
from molecule_platform.storage.postgres import PostgresStorage
from molecule_platform.storage.schema import SchemaTooNew
from molecule_platform.storage.sqlite import SqliteStorage
from molecule_wire import ids

STATIC = Path(__file__).parent / "static"
DEFAULT_ORG = "default"


class StartProblem(Exception):
    """The house cannot open. The text is one sentence that says why and what to do."""


def _log() -> Any:
    """Lines for people and machines on stderr. Tracebacks come without local values: those hold secrets."""
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
    )


class SystemClock:
    """See `ports.clock.Clock`."""

    def now(self) -> datetime:
        """The time in UTC, cut to milliseconds."""
        now = datetime.now(UTC)
        return now.replace(microsecond=now.microsecond // 1000 * 1000)


@dataclass(frozen=True)
class _Ground:
    """What everything stands on."""

    settings: Settings
    storage: Storage
    bells: Bells
    clock: SystemClock
    keyring: Keyring
    org_id: str
    admin_token: str
    replica_id: str
    log: Any


class House:
    """A running platform: open it, serve `asgi`, close it."""

    def __init__(self, ground: _Ground, outbound: Outbound, exits: AsyncExitStack) -> None:
        settings, storage, bells, clock = ground.settings, ground.storage, ground.bells, ground.clock
        self._exits = exits
        self._bells = bells
        identity = Identity(storage, bells, clock, ground.admin_token, ground.org_id)
        authority = Authority(storage, clock)
        self._org_id = ground.org_id
        self._login = Login(storage, clock, identity)
        self._feed = Feed(storage, bells, ground.log)
        self._heartbeats = Heartbeats(
            storage, clock, ground.log, self._feed, settings.remote_liveness_stale_after
        )
        link = PushLink(outbound, settings.a2a_max_response_bytes, clock.now)
        self._courier = Courier(
            storage,
            bells,
            clock,
            ground.log,
            link,
            ground.replica_id,
            settings.a2a_idle_timeout_seconds,
            lambda workspace: _dispatch_secret(ground.keyring, workspace),
            random.random,
        )
        shared = settings.database_url is not None and settings.database_url.startswith("postgresql")
        self._sweeps = Sweeps(storage, clock, ground.log, ground.replica_id, self._courier, shared)
        self._health = HealthRoutes(storage)
        pages = Pages(STATIC)
        handlers = _handlers(ground, identity, authority, self._heartbeats, self._feed)
        handlers |= LoginRoutes(self._login, pages).handlers() | self._health.handlers()
        edge = Edge(settings.max_body_bytes, settings.a2a_max_body_bytes, settings.external_platform_url)
        self._pipeline = Pipeline(handlers, identity, authority, ground.log, edge, pages)
        self._live = LiveDoor(identity, bells, self._feed, settings.external_platform_url)

    @classmethod
    async def open(cls, settings: Settings) -> "House":
        """Bring up everything the settings name. Raises `StartProblem`."""
        exits = AsyncExitStack()
        try:
            ground = await _lay_ground(settings, exits)
            outbound = Outbound(guard.agent_policy(settings.allow_private_urls))
            exits.push_async_callback(outbound.close)
            house = cls(ground, outbound, exits)
            await house._start()
            return house
        except (StorageDown, SchemaTooNew, BusUnavailable, KeyProblem) as problem:
            await exits.aclose()
            raise StartProblem(str(problem)) from problem
        except BaseException:
            await exits.aclose()
            raise

    async def _start(self) -> None:
        await self._feed.start()
        self._exits.push_async_callback(self._feed.stop)
        self._heartbeats.start()
        self._exits.push_async_callback(self._heartbeats.stop)
        self._exits.push_async_callback(self._courier.stop)
        self._sweeps.start()
        self._exits.push_async_callback(self._sweeps.stop)

    async def asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The whole outside: HTTP through the pipeline, WebSockets through the live door."""
        if scope["type"] == "http":
            await self._pipeline(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._live(scope, receive, send)

    async def login_url(self, base_url: str) -> str:
        """A fresh one-time link for the administrator, owner of the first organisation."""
        code, _expires_at = await self._login.new_code("admin", "owner", self._org_id)
        return f"{base_url}/auth/login?code={code}"

    async def drain(self) -> None:
        """Say that no new work should come here, and let go of those who wait."""
        self._health.draining = True
        self._bells.hush()

    async def close(self) -> None:
        """Stop everything, last started first."""
        await self._exits.aclose()


async def _lay_ground(settings: Settings, exits: AsyncExitStack) -> _Ground:
    _make_data_dir(settings.data_dir)
    keyring = load_keyring(settings.data_dir, settings.secrets_encryption_key)
    admin_token = settings.admin_token or _admin_token(settings.data_dir / "admin.token")
    bus: Bus = NatsBus(settings.nats_url) if settings.nats_url else MemoryBus()
    await bus.start()
    exits.push_async_callback(bus.close)
    bells = Bells(bus)
    await bells.start()
    storage = await _open_storage(settings, bells)
    exits.push_async_callback(storage.close)
    clock = SystemClock()
    org_id = await storage.write(lambda tx: _default_org(tx, clock.now()))
    log = _log()
    return _Ground(settings, storage, bells, clock, keyring, org_id, admin_token, ids.uuid7(), log)


async def _open_storage(settings: Settings, bells: Bells) -> Storage:
    url = settings.database_url
    if url is not None and url.startswith("postgresql"):
        return await PostgresStorage.open(url, bells.ring)
    path = settings.data_dir / "molecule.db" if url is None else Path(url.removeprefix("sqlite:///"))
    return await SqliteStorage.open(path, bells.ring)


def _handlers(
    ground: _Ground, identity: Identity, authority: Authority, heartbeats: Heartbeats, feed: Feed
) -> dict[str, Handler]:
    settings, storage, clock, bells = ground.settings, ground.storage, ground.clock, ground.bells
    sealing = _sealing(ground.keyring)
    directory = Directory(storage, clock)
    delivery = Delivery(storage, bells, clock, ground.replica_id, _limits(settings))
    replies = Replies(storage, clock, delivery, ground.replica_id)
    rules = ClaimRules(settings.claim_on_register, settings.strict_register)
    joining = Registration(
        storage,
        clock,
        rules,
        _url_check(settings),
        _text_sealer(ground.keyring),
        settings.remote_liveness_stale_after,
    )
    claim_window = timedelta(seconds=settings.claim_window_seconds)
    lifecycle = Lifecycle(
        storage,
        clock,
        claim_window,
        lambda workspace, key, value, now: sealing.secret(workspace.org_id, workspace.id, key, value, now),
    )
    activity = ActivityDoors(Activity(storage, bells, clock), replies)
    door = A2aDoor(authority, delivery, replies, Tasks(storage))
    return {
        "a2a": door.handle,
        "registry.heartbeat": HeartbeatDoor(heartbeats, clock).handle,
        "activity.list": activity.read,
        "activity.notify": activity.notify,
        "message.show": MessageRoutes(delivery, directory).show,
        "event.list": EventRoutes(feed).listing,
        **InboxDoors(Inbox(storage, bells, clock, random.random)).handlers(),
        **TokenRoutes(Tokens(storage, clock), clock).handlers(),
        **AccessRoutes(Access(storage, clock)).handlers(),
        **RegistryRoutes(joining, directory, authority).handlers(),
        **WorkspaceRoutes(lifecycle, directory).handlers(),
        **SecretRoutes(SecretService(storage, clock, sealing)).handlers(),
    }


def _limits(settings: Settings) -> DeliveryLimits:
    return DeliveryLimits(
        hold_seconds=settings.a2a_hold_seconds,
        ttl_seconds=settings.message_ttl_seconds,
        run_seconds=settings.a2a_max_run_seconds,
        max_open=settings.mailbox_max_open,
        max_attempts=settings.message_max_attempts,
        idle_seconds=settings.a2a_idle_timeout_seconds,
    )


def _url_check(settings: Settings) -> Any:
    policy = guard.agent_policy(settings.allow_private_urls)

    async def check(url: str) -> None:
        try:
            await guard.resolve_and_check(url, policy)
        except (guard.UnsafeUrl, guard.UnresolvedHost) as problem:
            raise Refusal("invalid-url", str(problem)) from problem

    return check


def _sealing(keyring: Keyring) -> Sealing:
    def seal(plaintext: bytes, bound_to: str) -> tuple[bytes, bytes, str]:
        sealed = keyring.seal(plaintext, bound_to)
        return sealed.nonce, sealed.ciphertext, sealed.key_id

    def open_sealed(nonce: bytes, ciphertext: bytes, key_id: str, bound_to: str) -> bytes:
        try:
            return keyring.open(Sealed(key_id, nonce, ciphertext), bound_to)
        except KeyProblem as problem:
            raise ValueError(str(problem)) from problem

    return Sealing(seal, open_sealed)


def _text_sealer(keyring: Keyring) -> Callable[[str, str], str]:
    return lambda plaintext, bound_to: texts.seal_text(keyring, plaintext, bound_to)


def _dispatch_secret(keyring: Keyring, workspace: Workspace) -> str | None:
    if workspace.dispatch_secret_sealed is None:
        return None
    return texts.open_text(
        keyring, workspace.dispatch_secret_sealed, registration.dispatch_seal_context(workspace)
    )


def _default_org(tx: Transaction, now: datetime) -> str:
    org = tx.people.org_by_slug(DEFAULT_ORG)
    if org is None:
        org = Org(ids.uuid7(), DEFAULT_ORG, "Default organisation", now)
        tx.people.insert_org(org)
    tx.people.put_member("admin", org.id, "owner", now)
    return org.id


def _make_data_dir(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = folder / f".write-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as problem:
        raise StartProblem(
            f"the data directory {folder} cannot be written ({problem.strerror}): "
            "choose another with --data-dir or MOLECULE_DATA_DIR"
        ) from problem


def _admin_token(path: Path) -> str:
    """The administrator's token, made at the first start."""
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(credentials.new_token())
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    return path.read_text().strip()

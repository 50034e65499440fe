"""Who answers at which row of the route table."""

import random
from pathlib import Path

from molecule_platform.api.arrival import Edge
from molecule_platform.api.calls import Handler
from molecule_platform.api.hosts import KnownHosts
from molecule_platform.app.ground import Ground, issuer
from molecule_platform.app.staff import Staff, url_check
from molecule_platform.domain.delegation_context import ContextLimits
from molecule_platform.gateway.doors.a2a import A2aDoor
from molecule_platform.gateway.doors.activity import ActivityDoors
from molecule_platform.gateway.doors.cards import CardDoors
from molecule_platform.gateway.doors.delegations import DelegationStream
from molecule_platform.gateway.doors.heartbeat import HeartbeatDoor
from molecule_platform.gateway.doors.inbox import InboxDoors
from molecule_platform.gateway.doors.message_events import MessageEventDoors
from molecule_platform.gateway.doors.sending import Sending
from molecule_platform.gateway.doors.streams import StreamDoors
from molecule_platform.gateway.doors.task_frames import TaskFrames
from molecule_platform.gateway.doors.task_operations import TaskOperations
from molecule_platform.http.access import AccessRoutes
from molecule_platform.http.delegations import DelegationRoutes
from molecule_platform.http.events import EventRoutes
from molecule_platform.http.health import HealthRoutes
from molecule_platform.http.login import LoginRoutes
from molecule_platform.http.messages import MessageRoutes
from molecule_platform.http.ops import OpsRoutes
from molecule_platform.http.people import PeopleRoutes
from molecule_platform.http.plugins import PluginRoutes
from molecule_platform.http.registry import RegistryRoutes
from molecule_platform.http.secrets import SecretRoutes
from molecule_platform.http.signing import SigningRoutes
from molecule_platform.http.static import Pages
from molecule_platform.http.tickets import TicketRoutes
from molecule_platform.http.tokens import TokenRoutes
from molecule_platform.http.workspaces import WorkspaceRoutes
from molecule_platform.keys import sealers
from molecule_platform.services.access import Access
from molecule_platform.services.activity import Activity
from molecule_platform.services.delegating import Delegating
from molecule_platform.services.delivery import Delivery, DeliveryLimits
from molecule_platform.services.directory import Directory
from molecule_platform.services.followers import Followers
from molecule_platform.services.inbox import Inbox
from molecule_platform.services.inbox_progress import InboxProgress
from molecule_platform.services.logbook import Logbook
from molecule_platform.services.mailbox_capacity import CapacityLimits
from molecule_platform.services.message_streams import MessageStreams
from molecule_platform.services.message_trees import MessageTrees
from molecule_platform.services.messages import Messages
from molecule_platform.services.orgs import Orgs
from molecule_platform.services.people import PeopleService
from molecule_platform.services.registration import ClaimRules, Registration
from molecule_platform.services.replies import Replies
from molecule_platform.services.rotation import Rotation
from molecule_platform.services.search import AgentSearch
from molecule_platform.services.secrets import SecretService
from molecule_platform.services.task_pages import TaskPages
from molecule_platform.services.tasks import Tasks
from molecule_platform.services.tickets import Tickets
from molecule_platform.services.tokens import Tokens
from molecule_platform.settings import Settings

PAGES = Pages(Path(__file__).parent.parent / "static")


def handlers(ground: Ground, staff: Staff, health: HealthRoutes, followers: Followers) -> dict[str, Handler]:
    """A handler for every row of the table."""
    storage, clock = ground.storage, ground.clock
    directory = Directory(storage, clock)
    search = AgentSearch(storage, clock)
    return {
        **health.handlers(),
        **OpsRoutes(staff.loops, staff.metrics, clock).handlers(),
        **CardDoors(staff.cards).handlers(),
        **SigningRoutes(staff.signing, issuer(ground.settings)).handlers(),
        **LoginRoutes(staff.login, PAGES).handlers(),
        **PeopleRoutes(PeopleService(storage, clock), Orgs(storage, clock)).handlers(),
        **TicketRoutes(Tickets(storage, clock)).handlers(),
        **TokenRoutes(Tokens(storage, clock), staff.authority, clock).handlers(),
        **AccessRoutes(Access(storage, clock)).handlers(),
        **RegistryRoutes(_registration(ground, staff), directory, search, staff.authority).handlers(),
        **WorkspaceRoutes(staff.lives, directory).handlers(),
        **EventRoutes(staff.feed).handlers(),
        **StreamDoors(followers).handlers(),
        **DelegationStream(staff.delegations, followers).handlers(),
        **_secret_routes(ground, staff).handlers(),
        **_plugin_routes(staff).handlers(),
        **_mail(ground, staff, directory, followers),
    }


def _mail(ground: Ground, staff: Staff, directory: Directory, followers: Followers) -> dict[str, Handler]:
    """The doors of delivery."""
    storage, bells, clock = ground.storage, ground.bells, ground.clock
    limits = _limits(ground.settings)
    delivery = Delivery(storage, bells, clock, ground.replica_id, limits, staff.desk, staff.courier)
    replies = Replies(storage, clock, delivery, ground.replica_id)
    logbook = Logbook(storage, clock, staff.feed)
    inbox = Inbox(storage, bells, clock, random.random, ground.settings.message_max_releases)
    messages = Messages(storage, clock, delivery)
    progress = InboxProgress(storage, clock, ground.settings.a2a_max_response_bytes)
    tasks = Tasks(storage, clock, delivery)
    message_streams = MessageStreams(storage, bells, staff.streams)
    delegating = Delegating(storage, clock, delivery, context_limits(ground.settings))
    return {
        **_a2a(ground, staff, delivery, tasks, replies),
        "registry.heartbeat": HeartbeatDoor(staff.heartbeats).handle,
        **MessageRoutes(
            delivery, directory, messages, MessageTrees(storage, clock), staff.cancelling
        ).handlers(),
        **MessageEventDoors(delivery, tasks, message_streams, followers).handlers(),
        **ActivityDoors(Activity(storage, bells, clock), replies, logbook).handlers(),
        **InboxDoors(inbox, progress, messages, staff.metrics, clock, ground.settings.json_limits).handlers(),
        **DelegationRoutes(delegating, staff.delegations, clock).handlers(),
    }


def _a2a(
    ground: Ground, staff: Staff, delivery: Delivery, tasks: Tasks, replies: Replies
) -> dict[str, Handler]:
    """The two doors of A2A, which lead to the same place."""
    pages = TaskPages(ground.storage, sealers.for_places(ground.keyring))
    frames = TaskFrames(staff.streams, delivery, tasks, staff.identity)
    sending = Sending(delivery, tasks, frames, staff.push_configs)
    served = TaskOperations(tasks, pages, frames, staff.cancelling, staff.push_configs, staff.cards)
    blocking = ground.settings.a2a_blocking_max_seconds
    return {
        **A2aDoor(
            staff.authority, sending, served, replies, staff.relaying, blocking, ground.settings.json_limits
        ).handlers(),
    }


def _registration(ground: Ground, staff: Staff) -> Registration:
    settings = ground.settings
    open_org_id = ground.org_id if settings.open_enrolment else None
    return Registration(
        ground.storage,
        ground.clock,
        ClaimRules(settings.claim_on_register, settings.strict_register, open_org_id),
        url_check(settings),
        staff.card_signatures.judge,
        sealers.for_texts(ground.keyring),
        settings.remote_liveness_stale_after,
    )


def _secret_routes(ground: Ground, staff: Staff) -> SecretRoutes:
    sealing = sealers.for_secrets(ground.keyring)
    secrets = SecretService(ground.storage, ground.clock, sealing, staff.lives.restarts)
    rotation = Rotation(
        ground.storage,
        ground.clock,
        ground.keychain,
        sealing,
        sealers.for_lines(ground.keyring),
        sealers.for_places(ground.keyring),
    )
    return SecretRoutes(secrets, rotation)


def _plugin_routes(staff: Staff) -> PluginRoutes:
    found = staff.plugins
    return PluginRoutes(found.workspaces, found.supply, found.rules, found.stock)


def _limits(settings: Settings) -> DeliveryLimits:
    return DeliveryLimits(
        hold_seconds=settings.a2a_hold_seconds,
        ttl_seconds=settings.message_ttl_seconds,
        run_seconds=settings.a2a_max_run_seconds,
        capacity=CapacityLimits(
            settings.mailbox_max_open,
            settings.mailbox_sender_percent,
            settings.mailbox_max_bytes,
            settings.org_max_bytes,
            settings.a2a_max_body_bytes,
        ),
        max_attempts=settings.message_max_attempts,
        idle_seconds=settings.a2a_idle_timeout_seconds,
        delegation=context_limits(settings),
    )


def context_limits(settings: Settings) -> ContextLimits:
    """How far delegated work may spread."""
    return ContextLimits(settings.max_delegation_depth, settings.max_calls_per_root)


def edge(settings: Settings) -> Edge:
    """The outer wall, as the operator wants it."""
    return Edge(
        max_body_bytes=settings.max_body_bytes,
        a2a_max_body_bytes=settings.a2a_max_body_bytes,
        plugin_max_body_bytes=settings.plugin_install_body_max_bytes,
        json=settings.json_limits,
        work_max_bytes=settings.work_max_bytes,
        principal_work_max_bytes=settings.principal_work_max_bytes,
        max_connections=settings.max_connections,
        max_open_requests=settings.max_open_requests,
        max_agent_streams=settings.max_agent_streams,
        external_url=settings.external_platform_url,
        cors_origins=settings.cors_origins or frozenset(),
        trusted_proxies=settings.trusted_proxies or (),
        hosts=_hosts(settings),
    )


def _hosts(settings: Settings) -> KnownHosts:
    """The platform's names: its URLs, the address it is bound to, and what the operator adds."""
    urls = [url for url in (settings.external_platform_url, settings.platform_url) if url]
    bound = settings.bind_host
    named = [] if bound in ("0.0.0.0", "::", "") else [f"[{bound}]" if ":" in bound else bound]
    return KnownHosts(urls, [*(f"{name}:{settings.port}" for name in named), *(settings.allowed_hosts or ())])

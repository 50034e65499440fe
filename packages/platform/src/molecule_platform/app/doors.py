"""Who answers at which row of the route table."""

import random
from pathlib import Path

from molecule_platform.api.arrival import EdgeSettings
from molecule_platform.api.calls import Handler
from molecule_platform.api.hosts import AllowedHosts
from molecule_platform.app.ground import Resources, issuer
from molecule_platform.app.staff import Services, url_check
from molecule_platform.domain.delegation_context import ContextLimits
from molecule_platform.gateway.doors.a2a import A2AHandlers
from molecule_platform.gateway.doors.activity import ActivityHandlers
from molecule_platform.gateway.doors.cards import CardHandlers
from molecule_platform.gateway.doors.delegations import DelegationStream
from molecule_platform.gateway.doors.heartbeat import HeartbeatHandler
from molecule_platform.gateway.doors.inbox import InboxHandlers
from molecule_platform.gateway.doors.message_events import MessageEventHandlers
from molecule_platform.gateway.doors.sending import SendHandler
from molecule_platform.gateway.doors.streams import EventStreamHandlers
from molecule_platform.gateway.doors.task_frames import TaskEventStream
from molecule_platform.gateway.doors.task_operations import A2ATaskHandlers
from molecule_platform.http.access import AccessHandlers
from molecule_platform.http.delegations import DelegationHandlers
from molecule_platform.http.events import EventHandlers
from molecule_platform.http.health import HealthHandlers
from molecule_platform.http.login import LoginHandlers
from molecule_platform.http.messages import MessageHandlers
from molecule_platform.http.ops import VersionHandlers
from molecule_platform.http.people import PeopleHandlers
from molecule_platform.http.plugins import PluginHandlers
from molecule_platform.http.registry import RegistryHandlers
from molecule_platform.http.secrets import SecretHandlers
from molecule_platform.http.signing import SigningKeyHandlers
from molecule_platform.http.static import StaticFiles
from molecule_platform.http.tickets import StreamTicketHandlers
from molecule_platform.http.tokens import TokenHandlers
from molecule_platform.http.workspaces import WorkspaceHandlers
from molecule_platform.keys import sealers
from molecule_platform.services.access import AccessGrants
from molecule_platform.services.activity import ActivityPolling
from molecule_platform.services.delegating import DelegationCreator
from molecule_platform.services.delivery import DeliveryLimits, MessageService
from molecule_platform.services.directory import Directory
from molecule_platform.services.followers import EventSubscriptions
from molecule_platform.services.inbox import InboxService
from molecule_platform.services.inbox_progress import InboxProgress
from molecule_platform.services.logbook import ActivityWriter
from molecule_platform.services.mailbox_capacity import CapacityLimits
from molecule_platform.services.message_streams import MessageStreams
from molecule_platform.services.message_trees import MessageTrees
from molecule_platform.services.messages import MessageQueries
from molecule_platform.services.orgs import OrganisationService
from molecule_platform.services.people import MemberService
from molecule_platform.services.registration import ClaimRules, Registration
from molecule_platform.services.replies import Replies
from molecule_platform.services.rotation import KeyRotation
from molecule_platform.services.search import AgentSearch
from molecule_platform.services.secrets import SecretService
from molecule_platform.services.task_pages import TaskPages
from molecule_platform.services.tasks import TaskService
from molecule_platform.services.tickets import StreamTickets
from molecule_platform.services.tokens import TokenService
from molecule_platform.settings import Settings

PAGES = StaticFiles(Path(__file__).parent.parent / "static")


def build_handlers(
    ground: Resources, staff: Services, health: HealthHandlers, followers: EventSubscriptions
) -> dict[str, Handler]:
    """A handler for every row of the table."""
    storage, clock = ground.storage, ground.clock
    directory = Directory(storage, clock)
    search = AgentSearch(storage, clock)
    return {
        **health.handlers(),
        **VersionHandlers(staff.loops, staff.metrics, clock).handlers(),
        **CardHandlers(staff.cards).handlers(),
        **SigningKeyHandlers(staff.signing, issuer(ground.settings)).handlers(),
        **LoginHandlers(staff.login, PAGES).handlers(),
        **PeopleHandlers(MemberService(storage, clock), OrganisationService(storage, clock)).handlers(),
        **StreamTicketHandlers(StreamTickets(storage, clock)).handlers(),
        **TokenHandlers(TokenService(storage, clock), staff.authority, clock).handlers(),
        **AccessHandlers(AccessGrants(storage, clock)).handlers(),
        **RegistryHandlers(_registration(ground, staff), directory, search, staff.authority).handlers(),
        **WorkspaceHandlers(staff.lives, directory).handlers(),
        **EventHandlers(staff.feed).handlers(),
        **EventStreamHandlers(followers).handlers(),
        **DelegationStream(staff.delegations, followers).handlers(),
        **_secret_routes(ground, staff).handlers(),
        **_plugin_routes(staff).handlers(),
        **_mail(ground, staff, directory, followers),
    }


def _mail(
    ground: Resources, staff: Services, directory: Directory, followers: EventSubscriptions
) -> dict[str, Handler]:
    """The doors of delivery."""
    storage, bells, clock = ground.storage, ground.bells, ground.clock
    limits = _limits(ground.settings)
    delivery = MessageService(storage, bells, clock, ground.replica_id, limits, staff.desk, staff.courier)
    replies = Replies(storage, clock, delivery, ground.replica_id)
    logbook = ActivityWriter(storage, clock, staff.feed)
    inbox = InboxService(storage, bells, clock, random.random, ground.settings.message_max_releases)
    messages = MessageQueries(storage, clock, delivery)
    progress = InboxProgress(storage, clock, ground.settings.a2a_max_response_bytes)
    tasks = TaskService(storage, clock, delivery)
    message_streams = MessageStreams(storage, bells, staff.streams)
    delegating = DelegationCreator(storage, clock, delivery, context_limits(ground.settings))
    return {
        **_a2a(ground, staff, delivery, tasks, replies),
        "registry.heartbeat": HeartbeatHandler(staff.heartbeats).handle,
        **MessageHandlers(
            delivery, directory, messages, MessageTrees(storage, clock), staff.cancelling
        ).handlers(),
        **MessageEventHandlers(delivery, tasks, message_streams, followers).handlers(),
        **ActivityHandlers(ActivityPolling(storage, bells, clock), replies, logbook).handlers(),
        **InboxHandlers(
            inbox, progress, messages, staff.metrics, clock, ground.settings.json_limits
        ).handlers(),
        **DelegationHandlers(delegating, staff.delegations, clock).handlers(),
    }


def _a2a(
    ground: Resources, staff: Services, delivery: MessageService, tasks: TaskService, replies: Replies
) -> dict[str, Handler]:
    """The two doors of A2A, which lead to the same place."""
    pages = TaskPages(ground.storage, sealers.for_places(ground.keyring))
    frames = TaskEventStream(staff.streams, delivery, tasks, staff.identity)
    sending = SendHandler(delivery, tasks, frames, staff.push_configs)
    served = A2ATaskHandlers(tasks, pages, frames, staff.cancelling, staff.push_configs, staff.cards)
    blocking = ground.settings.a2a_blocking_max_seconds
    return {
        **A2AHandlers(
            staff.authority, sending, served, replies, staff.relaying, blocking, ground.settings.json_limits
        ).handlers(),
    }


def _registration(ground: Resources, staff: Services) -> Registration:
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


def _secret_routes(ground: Resources, staff: Services) -> SecretHandlers:
    sealing = sealers.for_secrets(ground.keyring)
    secrets = SecretService(ground.storage, ground.clock, sealing, staff.lives.restarts)
    rotation = KeyRotation(
        ground.storage,
        ground.clock,
        ground.keychain,
        sealing,
        sealers.for_lines(ground.keyring),
        sealers.for_places(ground.keyring),
    )
    return SecretHandlers(secrets, rotation)


def _plugin_routes(staff: Services) -> PluginHandlers:
    found = staff.plugins
    return PluginHandlers(found.workspaces, found.supply, found.rules, found.stock)


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


def edge(settings: Settings) -> EdgeSettings:
    """The outer wall, as the operator wants it."""
    return EdgeSettings(
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


def _hosts(settings: Settings) -> AllowedHosts:
    """The platform's names: its URLs, the address it is bound to, and what the operator adds."""
    urls = [url for url in (settings.external_platform_url, settings.platform_url) if url]
    bound = settings.bind_host
    named = [] if bound in ("0.0.0.0", "::", "") else [f"[{bound}]" if ":" in bound else bound]
    return AllowedHosts(
        urls, [*(f"{name}:{settings.port}" for name in named), *(settings.allowed_hosts or ())]
    )

"""Who answers at which row of the route table."""

import random
from pathlib import Path

from molecule_platform.app.resources import Resources, issuer
from molecule_platform.app.services import Services, url_check
from molecule_platform.domain.delegation_context import ContextLimits
from molecule_platform.keys import service_sealers
from molecule_platform.services.events.activity_writer import ActivityWriter
from molecule_platform.services.events.subscriptions import EventSubscriptions
from molecule_platform.services.identity.access_grants import AccessGrants
from molecule_platform.services.identity.members import MemberService
from molecule_platform.services.identity.organisations import OrganisationService
from molecule_platform.services.identity.stream_tickets import StreamTickets
from molecule_platform.services.identity.tokens import TokenService
from molecule_platform.services.keys.key_rotation import KeyRotation
from molecule_platform.services.keys.secrets import SecretService
from molecule_platform.services.messaging.delegations.delegation_creator import DelegationCreator
from molecule_platform.services.messaging.inbox.activity_polling import ActivityPolling
from molecule_platform.services.messaging.inbox.inbox_progress import InboxProgress
from molecule_platform.services.messaging.inbox.inbox_service import InboxService
from molecule_platform.services.messaging.messages.mailbox_capacity import CapacityLimits
from molecule_platform.services.messaging.messages.message_queries import MessageQueries
from molecule_platform.services.messaging.messages.message_service import DeliveryLimits, MessageService
from molecule_platform.services.messaging.messages.message_streams import MessageStreams
from molecule_platform.services.messaging.messages.message_trees import MessageTrees
from molecule_platform.services.messaging.messages.replies import Replies
from molecule_platform.services.messaging.tasks.task_pages import TaskPages
from molecule_platform.services.messaging.tasks.task_service import TaskService
from molecule_platform.services.workspaces.agent_search import AgentSearch
from molecule_platform.services.workspaces.directory import Directory
from molecule_platform.services.workspaces.registration import ClaimRules, Registration
from molecule_platform.settings import Settings
from molecule_platform.web.pipeline.allowed_hosts import AllowedHosts
from molecule_platform.web.pipeline.calls import Handler
from molecule_platform.web.pipeline.request import EdgeSettings
from molecule_platform.web.pipeline.static_files import StaticFiles
from molecule_platform.web.routes.a2a.handlers import A2AHandlers
from molecule_platform.web.routes.a2a.send_handler import SendHandler
from molecule_platform.web.routes.a2a.task_handlers import A2ATaskHandlers
from molecule_platform.web.routes.access import AccessHandlers
from molecule_platform.web.routes.activity import ActivityHandlers
from molecule_platform.web.routes.cards import CardHandlers
from molecule_platform.web.routes.delegations import DelegationHandlers
from molecule_platform.web.routes.events import EventHandlers, StreamTicketHandlers
from molecule_platform.web.routes.health import HealthHandlers
from molecule_platform.web.routes.inbox import InboxHandlers
from molecule_platform.web.routes.login import LoginHandlers
from molecule_platform.web.routes.messages import MessageHandlers
from molecule_platform.web.routes.people import PeopleHandlers
from molecule_platform.web.routes.plugins import PluginHandlers
from molecule_platform.web.routes.registry import HeartbeatHandler, RegistryHandlers
from molecule_platform.web.routes.secrets import SecretHandlers
from molecule_platform.web.routes.signing_keys import SigningKeyHandlers
from molecule_platform.web.routes.tokens import TokenHandlers
from molecule_platform.web.routes.version import VersionHandlers
from molecule_platform.web.routes.workspaces import WorkspaceHandlers
from molecule_platform.web.streams.delegation_events import DelegationStream
from molecule_platform.web.streams.message_events import MessageEventHandlers
from molecule_platform.web.streams.sse import EventStreamHandlers
from molecule_platform.web.streams.task_events import TaskEventStream

PAGES = StaticFiles(Path(__file__).parent.parent / "static")


def build_handlers(
    resources: Resources, services: Services, health: HealthHandlers, followers: EventSubscriptions
) -> dict[str, Handler]:
    """A handler for every row of the table."""
    storage, clock = resources.storage, resources.clock
    directory = Directory(storage, clock)
    search = AgentSearch(storage, clock)
    return {
        **health.handlers(),
        **VersionHandlers(services.loops, services.metrics, clock).handlers(),
        **CardHandlers(services.cards).handlers(),
        **SigningKeyHandlers(services.signing, issuer(resources.settings)).handlers(),
        **LoginHandlers(services.login, PAGES).handlers(),
        **PeopleHandlers(MemberService(storage, clock), OrganisationService(storage, clock)).handlers(),
        **StreamTicketHandlers(StreamTickets(storage, clock)).handlers(),
        **TokenHandlers(TokenService(storage, clock), services.authority, clock).handlers(),
        **AccessHandlers(AccessGrants(storage, clock)).handlers(),
        **RegistryHandlers(
            _registration(resources, services), directory, search, services.authority
        ).handlers(),
        **WorkspaceHandlers(services.lifecycle_services, directory).handlers(),
        **EventHandlers(services.feed).handlers(),
        **EventStreamHandlers(followers).handlers(),
        **DelegationStream(services.delegations, followers).handlers(),
        **_secret_routes(resources, services).handlers(),
        **_plugin_routes(services).handlers(),
        **_mail(resources, services, directory, followers),
    }


def _mail(
    resources: Resources, services: Services, directory: Directory, followers: EventSubscriptions
) -> dict[str, Handler]:
    """The doors of delivery."""
    storage, signals, clock = resources.storage, resources.signals, resources.clock
    limits = _limits(resources.settings)
    delivery = MessageService(
        storage, signals, clock, resources.replica_id, limits, services.waiters, services.dispatcher
    )
    replies = Replies(storage, clock, delivery, resources.replica_id)
    activity_writer = ActivityWriter(storage, clock, services.feed)
    inbox = InboxService(storage, signals, clock, random.random, resources.settings.message_max_releases)
    messages = MessageQueries(storage, clock, delivery)
    progress = InboxProgress(storage, clock, resources.settings.a2a_max_response_bytes)
    tasks = TaskService(storage, clock, delivery)
    message_streams = MessageStreams(storage, signals, services.streams)
    delegating = DelegationCreator(storage, clock, delivery, context_limits(resources.settings))
    return {
        **_a2a(resources, services, delivery, tasks, replies),
        "registry.heartbeat": HeartbeatHandler(services.heartbeats).handle,
        **MessageHandlers(
            delivery, directory, messages, MessageTrees(storage, clock), services.cancellation
        ).handlers(),
        **MessageEventHandlers(delivery, tasks, message_streams, followers).handlers(),
        **ActivityHandlers(ActivityPolling(storage, signals, clock), replies, activity_writer).handlers(),
        **InboxHandlers(
            inbox, progress, messages, services.metrics, clock, resources.settings.json_limits
        ).handlers(),
        **DelegationHandlers(delegating, services.delegations, clock).handlers(),
    }


def _a2a(
    resources: Resources, services: Services, delivery: MessageService, tasks: TaskService, replies: Replies
) -> dict[str, Handler]:
    """The two doors of A2A, which lead to the same place."""
    pages = TaskPages(resources.storage, service_sealers.for_places(resources.keyring))
    frames = TaskEventStream(services.streams, delivery, tasks, services.identity)
    sending = SendHandler(delivery, tasks, frames, services.push_configs)
    served = A2ATaskHandlers(
        tasks, pages, frames, services.cancellation, services.push_configs, services.cards
    )
    blocking = resources.settings.a2a_blocking_max_seconds
    return {
        **A2AHandlers(
            services.authority,
            sending,
            served,
            replies,
            services.relaying,
            blocking,
            resources.settings.json_limits,
        ).handlers(),
    }


def _registration(resources: Resources, services: Services) -> Registration:
    settings = resources.settings
    open_org_id = resources.org_id if settings.open_enrolment else None
    return Registration(
        resources.storage,
        resources.clock,
        ClaimRules(settings.claim_on_register, settings.strict_register, open_org_id),
        url_check(settings),
        services.card_signatures.judge,
        service_sealers.for_texts(resources.keyring),
        settings.remote_liveness_stale_after,
    )


def _secret_routes(resources: Resources, services: Services) -> SecretHandlers:
    sealing = service_sealers.for_secrets(resources.keyring)
    secrets = SecretService(resources.storage, resources.clock, sealing, services.lifecycle_services.restarts)
    rotation = KeyRotation(
        resources.storage,
        resources.clock,
        resources.keychain,
        sealing,
        service_sealers.for_lines(resources.keyring),
        service_sealers.for_places(resources.keyring),
    )
    return SecretHandlers(secrets, rotation)


def _plugin_routes(services: Services) -> PluginHandlers:
    found = services.plugins
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

"""The services that live as long as the house, and what each is told by the settings."""

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from molecule_platform.agents.client import HttpAgentClient
from molecule_platform.agents.webhook_client import WebhookClient
from molecule_platform.app import plugin_services
from molecule_platform.app.plugin_services import PluginServices
from molecule_platform.app.resources import Resources, issuer
from molecule_platform.domain.errors import ApiError
from molecule_platform.egress import guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.egress.key_sets import HttpKeySets
from molecule_platform.keys import service_sealers, signature_verification, signing
from molecule_platform.ports.provisioner import Provisioner
from molecule_platform.services.cards.card_service import CardService
from molecule_platform.services.cards.card_signatures import CardSignatures
from molecule_platform.services.dispatch.delivery_attempt import AttemptLimits, DeliveryAttempt
from molecule_platform.services.dispatch.dispatcher import Dispatcher
from molecule_platform.services.dispatch.task_follower import TaskFollower
from molecule_platform.services.events.event_feed import EventFeed
from molecule_platform.services.identity.authentication import AuthenticationService
from molecule_platform.services.identity.authorizer import Authorizer
from molecule_platform.services.identity.login import Login
from molecule_platform.services.keys.active_signers import LOOK_AGAIN_SECONDS, ActiveSigners
from molecule_platform.services.keys.caller_assertions import CallerAssertions
from molecule_platform.services.keys.signing_keys import SigningKeyService
from molecule_platform.services.maintenance.retention import RetentionPeriods, RetentionService
from molecule_platform.services.maintenance.sweeps import Sweeps
from molecule_platform.services.messaging.delegations.delegation_service import DelegationService
from molecule_platform.services.messaging.messages.cancellation import CancelService
from molecule_platform.services.messaging.messages.passthrough import PassthroughService
from molecule_platform.services.messaging.tasks.task_streams import TaskStreams
from molecule_platform.services.messaging.webhooks.notifier import Notifier
from molecule_platform.services.messaging.webhooks.push_configs import CheckUrl, PushConfigService
from molecule_platform.services.support.outcome_waiters import OutcomeWaiters
from molecule_platform.services.support.periodic_tasks import PeriodicTasks
from molecule_platform.services.workspaces.heartbeats import Heartbeats
from molecule_platform.services.workspaces.lifecycle_services import LifecycleServices, LifecycleSettings
from molecule_platform.services.workspaces.provisioning import StartRules
from molecule_platform.settings import Settings
from molecule_platform.web.routes.metrics import Metrics


@dataclass(frozen=True)
class Services:
    """Everyone who works here all the time."""

    identity: AuthenticationService
    authority: Authorizer
    login: Login
    feed: EventFeed
    heartbeats: Heartbeats
    dispatcher: Dispatcher
    streams: TaskStreams
    waiters: OutcomeWaiters
    cancellation: CancelService
    relaying: PassthroughService
    sweeps: Sweeps
    lifecycle_services: LifecycleServices
    loops: PeriodicTasks
    metrics: Metrics
    signing: SigningKeyService
    keys: ActiveSigners
    assertions: CallerAssertions
    cards: CardService
    card_signatures: CardSignatures
    notifier: Notifier
    push_configs: PushConfigService
    delegations: DelegationService
    plugins: PluginServices


def build_services(
    resources: Resources,
    outbound: Outbound,
    to_webhooks: Outbound,
    to_sources: Outbound,
    provisioner: Provisioner | None,
) -> Services:
    """Bring everyone together; nobody works yet."""
    storage, clock = resources.storage, resources.clock
    authority = Authorizer(storage, clock)
    identity = AuthenticationService(
        storage, resources.signals, clock, resources.admin_token, resources.org_id, shared=resources.shared
    )
    feed = EventFeed(storage, resources.clock, resources.signals, resources.log)
    loops = PeriodicTasks(storage, clock, resources.log, resources.replica_id, resources.shared)
    metrics = Metrics(storage, loops, clock)
    keys = ActiveSigners(
        storage, resources.signals, clock, resources.log, service_sealers.for_signing(resources.keyring)
    )
    assertions = CallerAssertions(keys, issuer(resources.settings))
    most_bytes = resources.settings.a2a_max_response_bytes
    link = HttpAgentClient(outbound, most_bytes, clock.now, assertions.sign, resources.settings.json_limits)
    streams, waiters = TaskStreams(storage, resources.signals), OutcomeWaiters(resources.signals)
    delivery_attempt = _attempt(resources, link, streams, waiters)
    dispatcher = Dispatcher(
        storage, resources.signals, clock, delivery_attempt, resources.replica_id, metrics
    )
    open_secret = partial(service_sealers.dispatch_secret, resources.keyring)
    cancellation = CancelService(storage, clock, link, dispatcher, waiters, open_secret)
    waits = timedelta(hours=resources.settings.interrupted_task_hours)
    TaskFollower(storage, clock, link, waits, open_secret).add_to(loops)
    if resources.signals.reaches_others:
        loops.add("task-streams", 1.0, streams.look)
    sweeps = Sweeps(storage, clock, resources.replica_id, dispatcher, resources.shared, metrics)
    lifecycle_services = _lifecycle_services(resources, provisioner, metrics)
    seconds = resources.settings.remote_liveness_stale_after
    heartbeats = Heartbeats(storage, clock, resources.log, feed, seconds)
    sweeps.add_to(loops)
    lifecycle_services.add_to(loops)
    notifier = _notifier(resources, to_webhooks)
    notifier.add_to(loops)
    loops.add("signing-keys", LOOK_AGAIN_SECONDS, keys.refresh)
    delegations = DelegationService(storage, resources.signals, clock)
    loops.add("delegations", 1.0, delegations.tick, exclusive=True)
    _retention(resources, loops)
    return Services(
        identity=identity,
        authority=authority,
        login=Login(storage, clock, identity),
        feed=feed,
        heartbeats=heartbeats,
        dispatcher=dispatcher,
        streams=streams,
        waiters=waiters,
        cancellation=cancellation,
        relaying=PassthroughService(link, open_secret),
        sweeps=sweeps,
        lifecycle_services=lifecycle_services,
        loops=loops,
        metrics=metrics,
        signing=_signing(resources),
        keys=keys,
        assertions=assertions,
        cards=CardService(storage, resources.signals, authority, keys, push=True),
        card_signatures=_card_signatures(resources, outbound),
        notifier=notifier,
        push_configs=PushConfigService(
            storage,
            clock,
            resources.log,
            push_url_check(resources.settings),
            service_sealers.for_places(resources.keyring),
        ),
        delegations=delegations,
        plugins=plugin_services.build_plugin_services(
            resources, to_sources, lifecycle_services.restarts, provisioner
        ),
    )


def _attempt(
    resources: Resources, link: HttpAgentClient, streams: TaskStreams, waiters: OutcomeWaiters
) -> DeliveryAttempt:
    settings = resources.settings
    return DeliveryAttempt(
        resources.storage,
        resources.clock,
        resources.log,
        link,
        streams,
        waiters,
        AttemptLimits(
            settings.a2a_idle_timeout_seconds, random.random, max_bytes=settings.a2a_max_response_bytes
        ),
        partial(service_sealers.dispatch_secret, resources.keyring),
    )


def _notifier(resources: Resources, to_webhooks: Outbound) -> Notifier:
    return Notifier(
        resources.storage,
        resources.signals,
        resources.clock,
        resources.log,
        WebhookClient(to_webhooks, resources.clock.now),
        service_sealers.for_places(resources.keyring).open,
        resources.replica_id,
        random.random,
    )


def _card_signatures(resources: Resources, outbound: Outbound) -> CardSignatures:
    key_sets = HttpKeySets(outbound, time.monotonic)
    return CardSignatures(
        key_sets,
        signature_verification.verify,
        resources.settings.card_jku_hosts or frozenset(),
        resources.log,
    )


def _signing(resources: Resources) -> SigningKeyService:
    seal, opens = (
        service_sealers.for_texts(resources.keyring),
        service_sealers.opens_signing(resources.keyring),
    )
    return SigningKeyService(resources.storage, resources.clock, signing.new_key, seal, opens)


def _lifecycle_services(
    resources: Resources, provisioner: Provisioner | None, metrics: Metrics
) -> LifecycleServices:
    settings, sealing = resources.settings, service_sealers.for_secrets(resources.keyring)
    rules = LifecycleSettings(
        timedelta(seconds=settings.claim_window_seconds) if settings.claim_on_register else None,
        settings.workspace_roots or (),
        settings.hibernation_idle_minutes,
        StartRules(settings.provision_timeout_seconds),
    )
    return LifecycleServices(
        resources.storage,
        resources.signals,
        resources.clock,
        resources.log,
        provisioner,
        sealing,
        url_check(settings),
        rules,
        metrics,
        resources.replica_id,
    )


def _retention(resources: Resources, loops: PeriodicTasks) -> None:
    settings = resources.settings
    kept = RetentionPeriods(
        activity=timedelta(days=settings.activity_retention_days),
        events=timedelta(days=settings.event_retention_days),
        messages=timedelta(days=settings.task_retention_days),
        message_events=timedelta(hours=settings.task_event_retention_hours),
        delegations=timedelta(days=settings.delegation_retention_days),
    )
    retention = RetentionService(resources.storage, resources.clock, kept)
    seconds = settings.activity_cleanup_interval_hours * 3600
    loops.add("retention", seconds, retention.tick, exclusive=True)


def url_check(settings: Settings) -> Callable[[str], Awaitable[None]]:
    """The guard for addresses of agents, as registering and creating use it."""
    policy = guard.agent_policy(settings.allow_private_urls)

    async def check(url: str) -> None:
        try:
            await guard.resolve_and_check(url, policy)
        except (guard.UnsafeUrl, guard.UnresolvedHost) as problem:
            raise ApiError("invalid-url", str(problem)) from problem

    return check


def push_url_check(settings: Settings) -> CheckUrl:
    """The guard for addresses of webhooks."""
    policy = guard.caller_policy(settings.push_allow_private)

    async def check(url: str) -> str | None:
        try:
            await guard.resolve_and_check(url, policy)
        except guard.UnsafeUrl as problem:
            raise ApiError("invalid-url", str(problem)) from problem
        except guard.UnresolvedHost as problem:
            return str(problem)
        return None

    return check

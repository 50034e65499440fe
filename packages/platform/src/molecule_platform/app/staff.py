"""The services that live as long as the house, and what each is told by the settings."""

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from molecule_platform.app import plugins
from molecule_platform.app.ground import Resources, issuer
from molecule_platform.app.plugins import PluginServices
from molecule_platform.domain.refusals import ApiError
from molecule_platform.egress import guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.egress.key_sets import HttpKeySets
from molecule_platform.gateway.links.push import HttpAgentClient
from molecule_platform.gateway.links.webhooks import WebhookClient
from molecule_platform.http.metrics import Metrics
from molecule_platform.keys import sealers, signing, verifying
from molecule_platform.ports.provisioner import Provisioner
from molecule_platform.services.assertions import CallerAssertions
from molecule_platform.services.authority import Authorizer
from molecule_platform.services.cancelling import CancelService
from molecule_platform.services.card_signatures import CardSignatures
from molecule_platform.services.cards import CardService
from molecule_platform.services.carrying import AttemptLimits, DeliveryAttempt
from molecule_platform.services.courier import Dispatcher
from molecule_platform.services.delegated import DelegationService
from molecule_platform.services.desk import OutcomeWaiters
from molecule_platform.services.feed import EventFeed
from molecule_platform.services.heartbeats import Heartbeats
from molecule_platform.services.identity import AuthenticationService
from molecule_platform.services.lives import LifecycleServices, LifecycleSettings
from molecule_platform.services.living_keys import LOOK_AGAIN_SECONDS, ActiveSigners
from molecule_platform.services.login import Login
from molecule_platform.services.loops import PeriodicTasks
from molecule_platform.services.notifier import Notifier
from molecule_platform.services.provisioning import StartRules
from molecule_platform.services.push_configs import CheckUrl, PushConfigService
from molecule_platform.services.relaying import PassthroughService
from molecule_platform.services.retention import RetentionPeriods, RetentionService
from molecule_platform.services.signing import SigningKeyService
from molecule_platform.services.sweeps import Sweeps
from molecule_platform.services.task_follower import TaskFollower
from molecule_platform.services.task_streams import TaskStreams
from molecule_platform.settings import Settings


@dataclass(frozen=True)
class Services:
    """Everyone who works here all the time."""

    identity: AuthenticationService
    authority: Authorizer
    login: Login
    feed: EventFeed
    heartbeats: Heartbeats
    courier: Dispatcher
    streams: TaskStreams
    desk: OutcomeWaiters
    cancelling: CancelService
    relaying: PassthroughService
    sweeps: Sweeps
    lives: LifecycleServices
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
    ground: Resources,
    outbound: Outbound,
    to_webhooks: Outbound,
    to_sources: Outbound,
    provisioner: Provisioner | None,
) -> Services:
    """Bring everyone together; nobody works yet."""
    storage, clock = ground.storage, ground.clock
    authority = Authorizer(storage, clock)
    identity = AuthenticationService(
        storage, ground.bells, clock, ground.admin_token, ground.org_id, shared=ground.shared
    )
    feed = EventFeed(storage, ground.clock, ground.bells, ground.log)
    loops = PeriodicTasks(storage, clock, ground.log, ground.replica_id, ground.shared)
    metrics = Metrics(storage, loops, clock)
    keys = ActiveSigners(storage, ground.bells, clock, ground.log, sealers.for_signing(ground.keyring))
    assertions = CallerAssertions(keys, issuer(ground.settings))
    most_bytes = ground.settings.a2a_max_response_bytes
    link = HttpAgentClient(outbound, most_bytes, clock.now, assertions.sign, ground.settings.json_limits)
    streams, desk = TaskStreams(storage, ground.bells), OutcomeWaiters(ground.bells)
    carrier = _carrier(ground, link, streams, desk)
    courier = Dispatcher(storage, ground.bells, clock, carrier, ground.replica_id, metrics)
    open_secret = partial(sealers.dispatch_secret, ground.keyring)
    cancelling = CancelService(storage, clock, link, courier, desk, open_secret)
    waits = timedelta(hours=ground.settings.interrupted_task_hours)
    TaskFollower(storage, clock, link, waits, open_secret).add_to(loops)
    if ground.bells.reaches_others:
        loops.add("task-streams", 1.0, streams.look)
    sweeps = Sweeps(storage, clock, ground.replica_id, courier, ground.shared, metrics)
    lives = _lives(ground, provisioner, metrics)
    seconds = ground.settings.remote_liveness_stale_after
    heartbeats = Heartbeats(storage, clock, ground.log, feed, seconds)
    sweeps.add_to(loops)
    lives.add_to(loops)
    notifier = _notifier(ground, to_webhooks)
    notifier.add_to(loops)
    loops.add("signing-keys", LOOK_AGAIN_SECONDS, keys.refresh)
    delegations = DelegationService(storage, ground.bells, clock)
    loops.add("delegations", 1.0, delegations.tick, exclusive=True)
    _retention(ground, loops)
    return Services(
        identity=identity,
        authority=authority,
        login=Login(storage, clock, identity),
        feed=feed,
        heartbeats=heartbeats,
        courier=courier,
        streams=streams,
        desk=desk,
        cancelling=cancelling,
        relaying=PassthroughService(link, open_secret),
        sweeps=sweeps,
        lives=lives,
        loops=loops,
        metrics=metrics,
        signing=_signing(ground),
        keys=keys,
        assertions=assertions,
        cards=CardService(storage, ground.bells, authority, keys, push=True),
        card_signatures=_card_signatures(ground, outbound),
        notifier=notifier,
        push_configs=PushConfigService(
            storage,
            clock,
            ground.log,
            push_url_check(ground.settings),
            sealers.for_places(ground.keyring),
        ),
        delegations=delegations,
        plugins=plugins.build_plugin_services(ground, to_sources, lives.restarts, provisioner),
    )


def _carrier(
    ground: Resources, link: HttpAgentClient, streams: TaskStreams, desk: OutcomeWaiters
) -> DeliveryAttempt:
    settings = ground.settings
    return DeliveryAttempt(
        ground.storage,
        ground.clock,
        ground.log,
        link,
        streams,
        desk,
        AttemptLimits(
            settings.a2a_idle_timeout_seconds, random.random, max_bytes=settings.a2a_max_response_bytes
        ),
        partial(sealers.dispatch_secret, ground.keyring),
    )


def _notifier(ground: Resources, to_webhooks: Outbound) -> Notifier:
    return Notifier(
        ground.storage,
        ground.bells,
        ground.clock,
        ground.log,
        WebhookClient(to_webhooks, ground.clock.now),
        sealers.for_places(ground.keyring).open,
        ground.replica_id,
        random.random,
    )


def _card_signatures(ground: Resources, outbound: Outbound) -> CardSignatures:
    key_sets = HttpKeySets(outbound, time.monotonic)
    return CardSignatures(
        key_sets, verifying.verify, ground.settings.card_jku_hosts or frozenset(), ground.log
    )


def _signing(ground: Resources) -> SigningKeyService:
    seal, opens = sealers.for_texts(ground.keyring), sealers.opens_signing(ground.keyring)
    return SigningKeyService(ground.storage, ground.clock, signing.new_key, seal, opens)


def _lives(ground: Resources, provisioner: Provisioner | None, metrics: Metrics) -> LifecycleServices:
    settings, sealing = ground.settings, sealers.for_secrets(ground.keyring)
    rules = LifecycleSettings(
        timedelta(seconds=settings.claim_window_seconds) if settings.claim_on_register else None,
        settings.workspace_roots or (),
        settings.hibernation_idle_minutes,
        StartRules(settings.provision_timeout_seconds),
    )
    return LifecycleServices(
        ground.storage,
        ground.bells,
        ground.clock,
        ground.log,
        provisioner,
        sealing,
        url_check(settings),
        rules,
        metrics,
        ground.replica_id,
    )


def _retention(ground: Resources, loops: PeriodicTasks) -> None:
    settings = ground.settings
    kept = RetentionPeriods(
        activity=timedelta(days=settings.activity_retention_days),
        events=timedelta(days=settings.event_retention_days),
        messages=timedelta(days=settings.task_retention_days),
        message_events=timedelta(hours=settings.task_event_retention_hours),
        delegations=timedelta(days=settings.delegation_retention_days),
    )
    retention = RetentionService(ground.storage, ground.clock, kept)
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

"""The services that live as long as the house, and what each is told by the settings."""

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from molecule_platform.app import plugins
from molecule_platform.app.ground import Ground, issuer
from molecule_platform.app.plugins import PluginStaff
from molecule_platform.domain.refusals import Refusal
from molecule_platform.egress import guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.egress.key_sets import HttpKeySets
from molecule_platform.gateway.links.push import PushLink
from molecule_platform.gateway.links.webhooks import WebhookLink
from molecule_platform.http.metrics import Metrics
from molecule_platform.keys import sealers, signing, verifying
from molecule_platform.ports.provisioner import Provisioner
from molecule_platform.services.assertions import CallerAssertions
from molecule_platform.services.authority import Authority
from molecule_platform.services.cancelling import Cancelling
from molecule_platform.services.card_signatures import CardSignatures
from molecule_platform.services.cards import Cards
from molecule_platform.services.carrying import Bounds, Carrier
from molecule_platform.services.courier import Courier
from molecule_platform.services.delegated import DelegationDesk
from molecule_platform.services.desk import Desk
from molecule_platform.services.feed import Feed
from molecule_platform.services.heartbeats import Heartbeats
from molecule_platform.services.identity import Identity
from molecule_platform.services.lives import LifeRules, Lives
from molecule_platform.services.living_keys import LOOK_AGAIN_SECONDS, LivingKeys
from molecule_platform.services.login import Login
from molecule_platform.services.loops import Loops
from molecule_platform.services.notifier import Notifier
from molecule_platform.services.provisioning import StartRules
from molecule_platform.services.push_configs import CheckUrl, PushConfigs
from molecule_platform.services.relaying import Relaying
from molecule_platform.services.retention import Kept, Retention
from molecule_platform.services.signing import Signing
from molecule_platform.services.sweeps import Sweeps
from molecule_platform.services.task_follower import TaskFollower
from molecule_platform.services.task_streams import TaskStreams
from molecule_platform.settings import Settings


@dataclass(frozen=True)
class Staff:
    """Everyone who works here all the time."""

    identity: Identity
    authority: Authority
    login: Login
    feed: Feed
    heartbeats: Heartbeats
    courier: Courier
    streams: TaskStreams
    desk: Desk
    cancelling: Cancelling
    relaying: Relaying
    sweeps: Sweeps
    lives: Lives
    loops: Loops
    metrics: Metrics
    signing: Signing
    keys: LivingKeys
    assertions: CallerAssertions
    cards: Cards
    card_signatures: CardSignatures
    notifier: Notifier
    push_configs: PushConfigs
    delegations: DelegationDesk
    plugins: PluginStaff


def hire(
    ground: Ground,
    outbound: Outbound,
    to_webhooks: Outbound,
    to_sources: Outbound,
    provisioner: Provisioner | None,
) -> Staff:
    """Bring everyone together; nobody works yet."""
    storage, clock = ground.storage, ground.clock
    authority = Authority(storage, clock)
    identity = Identity(storage, ground.bells, clock, ground.admin_token, ground.org_id, shared=ground.shared)
    feed = Feed(storage, ground.clock, ground.bells, ground.log)
    loops = Loops(storage, clock, ground.log, ground.replica_id, ground.shared)
    metrics = Metrics(storage, loops, clock)
    keys = LivingKeys(storage, ground.bells, clock, ground.log, sealers.for_signing(ground.keyring))
    assertions = CallerAssertions(keys, issuer(ground.settings))
    most_bytes = ground.settings.a2a_max_response_bytes
    link = PushLink(outbound, most_bytes, clock.now, assertions.sign, ground.settings.json_limits)
    streams, desk = TaskStreams(storage, ground.bells), Desk(ground.bells)
    carrier = _carrier(ground, link, streams, desk)
    courier = Courier(storage, ground.bells, clock, carrier, ground.replica_id, metrics)
    open_secret = partial(sealers.dispatch_secret, ground.keyring)
    cancelling = Cancelling(storage, clock, link, courier, desk, open_secret)
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
    delegations = DelegationDesk(storage, ground.bells, clock)
    loops.add("delegations", 1.0, delegations.tick, exclusive=True)
    _retention(ground, loops)
    return Staff(
        identity=identity,
        authority=authority,
        login=Login(storage, clock, identity),
        feed=feed,
        heartbeats=heartbeats,
        courier=courier,
        streams=streams,
        desk=desk,
        cancelling=cancelling,
        relaying=Relaying(link, open_secret),
        sweeps=sweeps,
        lives=lives,
        loops=loops,
        metrics=metrics,
        signing=_signing(ground),
        keys=keys,
        assertions=assertions,
        cards=Cards(storage, ground.bells, authority, keys, push=True),
        card_signatures=_card_signatures(ground, outbound),
        notifier=notifier,
        push_configs=PushConfigs(
            storage,
            clock,
            ground.log,
            push_url_check(ground.settings),
            sealers.for_places(ground.keyring),
        ),
        delegations=delegations,
        plugins=plugins.hire(ground, to_sources, lives.restarts, provisioner),
    )


def _carrier(ground: Ground, link: PushLink, streams: TaskStreams, desk: Desk) -> Carrier:
    settings = ground.settings
    return Carrier(
        ground.storage,
        ground.clock,
        ground.log,
        link,
        streams,
        desk,
        Bounds(settings.a2a_idle_timeout_seconds, random.random, max_bytes=settings.a2a_max_response_bytes),
        partial(sealers.dispatch_secret, ground.keyring),
    )


def _notifier(ground: Ground, to_webhooks: Outbound) -> Notifier:
    return Notifier(
        ground.storage,
        ground.bells,
        ground.clock,
        ground.log,
        WebhookLink(to_webhooks, ground.clock.now),
        sealers.for_places(ground.keyring).open,
        ground.replica_id,
        random.random,
    )


def _card_signatures(ground: Ground, outbound: Outbound) -> CardSignatures:
    key_sets = HttpKeySets(outbound, time.monotonic)
    return CardSignatures(
        key_sets, verifying.verify, ground.settings.card_jku_hosts or frozenset(), ground.log
    )


def _signing(ground: Ground) -> Signing:
    seal, opens = sealers.for_texts(ground.keyring), sealers.opens_signing(ground.keyring)
    return Signing(ground.storage, ground.clock, signing.new_key, seal, opens)


def _lives(ground: Ground, provisioner: Provisioner | None, metrics: Metrics) -> Lives:
    settings, sealing = ground.settings, sealers.for_secrets(ground.keyring)
    rules = LifeRules(
        timedelta(seconds=settings.claim_window_seconds) if settings.claim_on_register else None,
        settings.workspace_roots or (),
        settings.hibernation_idle_minutes,
        StartRules(settings.provision_timeout_seconds),
    )
    return Lives(
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


def _retention(ground: Ground, loops: Loops) -> None:
    settings = ground.settings
    kept = Kept(
        activity=timedelta(days=settings.activity_retention_days),
        events=timedelta(days=settings.event_retention_days),
        messages=timedelta(days=settings.task_retention_days),
        message_events=timedelta(hours=settings.task_event_retention_hours),
        delegations=timedelta(days=settings.delegation_retention_days),
    )
    retention = Retention(ground.storage, ground.clock, kept)
    seconds = settings.activity_cleanup_interval_hours * 3600
    loops.add("retention", seconds, retention.tick, exclusive=True)


def url_check(settings: Settings) -> Callable[[str], Awaitable[None]]:
    """The guard for addresses of agents, as registering and creating use it."""
    policy = guard.agent_policy(settings.allow_private_urls)

    async def check(url: str) -> None:
        try:
            await guard.resolve_and_check(url, policy)
        except (guard.UnsafeUrl, guard.UnresolvedHost) as problem:
            raise Refusal("invalid-url", str(problem)) from problem

    return check


def push_url_check(settings: Settings) -> CheckUrl:
    """The guard for addresses of webhooks."""
    policy = guard.caller_policy(settings.push_allow_private)

    async def check(url: str) -> str | None:
        try:
            await guard.resolve_and_check(url, policy)
        except guard.UnsafeUrl as problem:
            raise Refusal("invalid-url", str(problem)) from problem
        except guard.UnresolvedHost as problem:
            return str(problem)
        return None

    return check

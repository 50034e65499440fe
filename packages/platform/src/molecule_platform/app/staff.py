"""The services that live as long as the house, and what each is told by the settings."""

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from molecule_platform.app.ground import Ground
from molecule_platform.domain.refusals import Refusal
from molecule_platform.egress import guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.gateway.links.push import PushLink
from molecule_platform.http.metrics import Metrics
from molecule_platform.keys import sealers, signing
from molecule_platform.ports.provisioner import Provisioner
from molecule_platform.services.authority import Authority
from molecule_platform.services.courier import Courier
from molecule_platform.services.feed import Feed
from molecule_platform.services.heartbeats import Heartbeats
from molecule_platform.services.identity import Identity
from molecule_platform.services.lives import LifeRules, Lives
from molecule_platform.services.login import Login
from molecule_platform.services.loops import Loops
from molecule_platform.services.provisioning import StartRules
from molecule_platform.services.retention import Kept, Retention
from molecule_platform.services.signing import Signing
from molecule_platform.services.sweeps import Sweeps
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
    sweeps: Sweeps
    lives: Lives
    loops: Loops
    metrics: Metrics
    signing: Signing


def hire(ground: Ground, outbound: Outbound, provisioner: Provisioner | None) -> Staff:
    """Bring everyone together; nobody works yet."""
    storage, clock = ground.storage, ground.clock
    identity = Identity(storage, ground.bells, clock, ground.admin_token, ground.org_id)
    feed = Feed(storage, ground.bells, ground.log)
    loops = Loops(storage, clock, ground.log, ground.replica_id, ground.shared)
    metrics = Metrics(storage, loops, clock)
    courier = _courier(ground, outbound, metrics)
    sweeps = Sweeps(storage, clock, ground.replica_id, courier, ground.shared, metrics)
    lives = _lives(ground, provisioner, metrics)
    seconds = ground.settings.remote_liveness_stale_after
    heartbeats = Heartbeats(storage, clock, ground.log, feed, ground.bells, seconds)
    sweeps.add_to(loops)
    lives.add_to(loops)
    _retention(ground, loops)
    return Staff(
        identity=identity,
        authority=Authority(storage, clock),
        login=Login(storage, clock, identity),
        feed=feed,
        heartbeats=heartbeats,
        courier=courier,
        sweeps=sweeps,
        lives=lives,
        loops=loops,
        metrics=metrics,
        signing=Signing(storage, clock, signing.new_key, sealers.for_texts(ground.keyring)),
    )


def _courier(ground: Ground, outbound: Outbound, metrics: Metrics) -> Courier:
    settings = ground.settings
    return Courier(
        ground.storage,
        ground.bells,
        ground.clock,
        ground.log,
        PushLink(outbound, settings.a2a_max_response_bytes, ground.clock.now),
        ground.replica_id,
        settings.a2a_idle_timeout_seconds,
        lambda workspace: sealers.dispatch_secret(ground.keyring, workspace),
        random.random,
        metrics,
    )


def _lives(ground: Ground, provisioner: Provisioner | None, metrics: Metrics) -> Lives:
    settings, sealing = ground.settings, sealers.for_secrets(ground.keyring)
    rules = LifeRules(
        timedelta(seconds=settings.claim_window_seconds),
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
    )
    retention = Retention(ground.storage, ground.clock, kept)
    seconds = settings.activity_cleanup_interval_hours * 3600
    loops.add("retention", seconds, retention.tick, exclusive=True)


def url_check(settings: Settings) -> Any:
    """The guard for addresses of agents, as registering and creating use it."""
    policy = guard.agent_policy(settings.allow_private_urls)

    async def check(url: str) -> None:
        try:
            await guard.resolve_and_check(url, policy)
        except (guard.UnsafeUrl, guard.UnresolvedHost) as problem:
            raise Refusal("invalid-url", str(problem)) from problem

    return check

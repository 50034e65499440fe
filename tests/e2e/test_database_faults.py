"""Faults below two replicas: no message is lost or answered twice, refusals are soon, recovery is sooner."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import asyncpg
import pytest

from molecule_platform.storage.postgres import MAX_CONNECTIONS
from molecule_platform.testing import servers
from scripts.soak.fleet import SHARED
from tests.deadlines import stretch
from tests.e2e.fault_ledger import Report, run_fault
from tests.e2e.platform_process import PlatformProcess
from tests.session_count import SessionCount
from tests.tcp_proxy import TcpProxy

REFUSED_SECONDS = stretch(5.0)
CUT_SECONDS, OTHER_SECONDS = stretch(10.0), stretch(1.0)
ONE, TWO = 0, 1


@dataclass
class Cluster:
    """Two replicas; the first one reaches PostgreSQL through a network that can fail, both reach NATS so."""

    server_url: str
    database_url: str
    replicas: list[PlatformProcess]
    networks: list[TcpProxy]
    nats: TcpProxy
    sessions: SessionCount

    def run(self, fail: Callable[[], object], heal: Callable[[], object], seconds: float) -> Report:
        """Let it fail for some seconds under load, and hold it to what is true of every fault."""
        report = asyncio.run(run_fault("two replicas", self.replicas, fail, heal, seconds))
        sessions = f"  sessions at most: {self.sessions.most_in} of {MAX_CONNECTIONS} each"
        print("\n".join([*report.lines(), sessions]))
        assert (report.verdict.lost, report.verdict.twice) == ([], [])
        assert report.verdict.answered == report.verdict.sent
        assert all(most <= MAX_CONNECTIONS for most in self.sessions.most_in.values())
        assert len(self.sessions.most_in) == len(self.replicas)
        return report


@contextlib.contextmanager
def cluster_on(folder: Path, server_url: str, database_url: str) -> Generator[Cluster]:
    """Start two replicas on a database, each behind a network of its own."""
    place = urlsplit(database_url)
    with contextlib.ExitStack() as stack:
        nats_url = stack.enter_context(servers.private_nats())
        nats = stack.enter_context(TcpProxy(urlsplit(nats_url).port or 0))
        shared = SHARED | {"NATS_URL": nats_url.replace(str(nats.upstream_port), str(nats.port))}
        networks = [stack.enter_context(TcpProxy(place.port or 0)) for _ in (ONE, TWO)]
        replicas: list[PlatformProcess] = []
        for name, network in zip(("one", "two"), networks, strict=True):
            (folder / name).mkdir()
            url = database_url.replace(f":{place.port}/", f":{network.port}/")
            replica = PlatformProcess(
                servers.free_port(), folder / name / "data", shared | {"DATABASE_URL": url}
            )
            replicas.append(replica)
            stack.callback(replica.stop)
            replica.start()
        groups = {
            name: (lambda n=network: n.upstream_ports) for name, network in zip("12", networks, strict=True)
        }
        sessions = SessionCount(server_url, place.path[1:], groups)
        stack.enter_context(sessions)
        yield Cluster(server_url, database_url, replicas, networks, nats, sessions)


@pytest.fixture
def cluster(tmp_path: Path, postgres_url: str, postgres_database: str) -> Iterator[Cluster]:
    with cluster_on(tmp_path, postgres_url, postgres_database) as running:
        yield running


def check_refusals(report: Report, replica: int) -> None:
    """Hold a replica without a database to refuse with Retry-After, and not to be ready."""
    log = report.replicas[replica]
    during = log.between(report.failed_at, report.healed_at - REFUSED_SECONDS)
    assert max(attempt.seconds for attempt in during) < REFUSED_SECONDS
    late = log.between(report.failed_at + REFUSED_SECONDS, report.healed_at - REFUSED_SECONDS)
    assert late
    assert {(attempt.status, attempt.has_retry_after) for attempt in late} == {(503, True)}
    checks = log.ready_between(report.failed_at + REFUSED_SECONDS, report.healed_at - REFUSED_SECONDS)
    assert checks
    assert {attempt.status for attempt in checks} == {503}


def check_recovery(report: Report, *, cut: tuple[int, ...], other: tuple[int, ...] = ()) -> None:
    """Hold each replica to accept again in time after healing."""
    for replica in cut:
        assert report.replicas[replica].seconds_to_recover(report.healed_at) < CUT_SECONDS
    for replica in other:
        assert report.replicas[replica].seconds_to_recover(report.healed_at) < OTHER_SECONDS


def check_other_serves(report: Report, replica: int) -> None:
    """Hold the other replica to serve; a lock that the cut one held is free after three seconds."""
    log = report.replicas[replica]
    assert all(attempt.accepted for attempt in log.between(report.failed_at, report.healed_at))


def partition(cluster: Cluster, seconds: float) -> None:
    network = cluster.networks[ONE]
    report = cluster.run(network.hold, network.heal, seconds)
    check_refusals(report, ONE)
    check_other_serves(report, TWO)
    check_recovery(report, cut=(ONE,), other=(TWO,))


@pytest.mark.e2e
@pytest.mark.slow  # a fault is noticed after seconds, and healed after seconds
def test_a_replica_cut_off_from_the_database_refuses_and_recovers(cluster: Cluster) -> None:
    partition(cluster, 2 * REFUSED_SECONDS + 1)


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_partition_of_45_seconds_loses_nothing(cluster: Cluster) -> None:
    partition(cluster, 45.0)


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.timeout(400)
def test_half_open_connections_lose_nothing(cluster: Cluster) -> None:
    network = cluster.networks[ONE]
    report = cluster.run(network.swallow, network.heal, 20.0)
    check_refusals(report, ONE)
    check_other_serves(report, TWO)
    check_recovery(report, cut=(ONE,), other=(TWO,))


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.timeout(400)
def test_dead_connections_are_replaced_while_new_ones_work(cluster: Cluster) -> None:
    # Nothing heals by itself here: the replica has as long as it would have after healing.
    report = cluster.run(cluster.networks[ONE].kill_open, lambda: None, CUT_SECONDS)
    during = report.replicas[ONE].between(report.failed_at, report.healed_at)
    assert max(attempt.seconds for attempt in during if not attempt.accepted) < REFUSED_SECONDS
    check_other_serves(report, TWO)
    check_recovery(report, cut=(), other=(ONE, TWO))


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_restart_of_the_database_loses_nothing(tmp_path: Path) -> None:
    with (
        private_postgres() as (server_url, restart),
        servers.fresh_database(server_url) as url,
        cluster_on(tmp_path, server_url, url) as cluster,
    ):
        report = cluster.run(restart, lambda: None, 0.0)
        # A restart is short. No request may meet it as anything but a refusal.
        for log in report.replicas:
            assert {attempt.status for attempt in log.sends} <= {200, 202, 503}
        check_recovery(report, cut=(ONE, TWO))


@contextlib.contextmanager
def private_postgres() -> Generator[tuple[str, Callable[[], None]]]:
    """A PostgreSQL of the test alone, and a function that restarts it."""
    with servers.private_postgres() as url:
        directory, binaries = asyncio.run(_directories(url))

        def control(*command: str) -> None:
            full = [f"{binaries}/pg_ctl", "-D", directory, "-l", f"{directory}/restart.log", "-w", *command]
            account = "postgres" if os.geteuid() == 0 else None
            subprocess.run(full, check=True, user=account, cwd="/", stdout=subprocess.DEVNULL)

        try:
            yield url, lambda: control("restart", "-m", "fast")
        finally:
            control("stop", "-m", "fast")


async def _directories(url: str) -> tuple[str, str]:
    connection = await cast("Any", asyncpg).connect(url)
    try:
        binaries = await connection.fetchval("SELECT setting FROM pg_config WHERE name = 'BINDIR'")
        return await connection.fetchval("SHOW data_directory"), binaries
    finally:
        await connection.close()


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int, account: str | None = None) -> Generator[Path]:
    """A file system of that size; where none may be mounted, the test is skipped."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "none", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        if account is not None:
            shutil.chown(folder, account, account)
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> None:
    with contextlib.suppress(OSError), (disk / "filling").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def check_full_disk(report: Report, replica: int) -> None:
    """Hold a replica to be not ready while its writes fail, and to lose no request to another error."""
    log = report.replicas[replica]
    assert {attempt.status for attempt in log.sends} <= {200, 202, 503}
    refused = [attempt.began for attempt in log.sends if attempt.status == 503]
    assert refused
    checks = log.ready_between(refused[0] + 1.0, report.healed_at - 0.5)
    assert checks
    assert {attempt.status for attempt in checks} == {503}


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_full_disk_below_postgresql_loses_nothing(tmp_path: Path, postgres_url: str) -> None:
    account = "postgres" if os.geteuid() == 0 else None
    # PostgreSQL has an account of its own, which may not enter the folders of the test.
    with (
        tempfile.TemporaryDirectory(prefix="molecule-disk-", dir=servers.PARENT) as place,
        small_disk(Path(place) / "small", 40, account) as disk,
    ):
        Path(place).chmod(0o755)
        asyncio.run(_execute(postgres_url, f"CREATE TABLESPACE small LOCATION '{disk}'"))
        with servers.fresh_database(postgres_url) as url:
            name = url.rpartition("/")[2]
            asyncio.run(_execute(postgres_url, f'ALTER DATABASE "{name}" SET TABLESPACE small'))
            with cluster_on(tmp_path, postgres_url, url) as cluster:
                report = cluster.run(lambda: fill(disk), (disk / "filling").unlink, 15.0)
        asyncio.run(_execute(postgres_url, "DROP TABLESPACE small"))
    for replica in (ONE, TWO):
        check_full_disk(report, replica)
    check_recovery(report, cut=(ONE, TWO))


async def _execute(url: str, statement: str) -> None:
    connection = await cast("Any", asyncpg).connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_full_disk_below_sqlite_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", 40) as disk:
        process = PlatformProcess(servers.free_port(), disk, SHARED)
        process.start()
        try:
            report = asyncio.run(
                run_fault("sqlite", [process], lambda: fill(disk), (disk / "filling").unlink, 15.0)
            )
        finally:
            process.stop()
    print("\n".join(report.lines()))
    assert (report.verdict.lost, report.verdict.twice) == ([], [])
    check_full_disk(report, ONE)
    check_recovery(report, cut=(ONE,))


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_frozen_replica_loses_nothing(cluster: Cluster) -> None:
    pid = cluster.replicas[ONE].pid
    report = cluster.run(lambda: os.kill(pid, signal.SIGSTOP), lambda: os.kill(pid, signal.SIGCONT), 15.0)
    check_other_serves(report, TWO)
    check_recovery(report, cut=(ONE,), other=(TWO,))


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.timeout(400)
def test_replicas_serve_without_nats(cluster: Cluster) -> None:
    report = cluster.run(cluster.nats.refuse, cluster.nats.heal, 15.0)
    check_other_serves(report, ONE)
    check_other_serves(report, TWO)
    check_recovery(report, cut=(), other=(ONE, TWO))

"""Fixtures of the whole workspace: private real servers and a clean environment."""

import asyncio
import gc
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import settings
from sqlalchemy import Engine

from molecule_platform.storage import postgres_connections, sqlite
from molecule_platform.storage.postgres import PostgresStorage
from molecule_platform.storage.sqlite import SqliteStorage
from molecule_platform.testing import servers

_OURS = (
    "ADMIN_TOKEN",
    "CANVAS_PROXY_URL",
    "CORS_ORIGINS",
    "DATABASE_URL",
    "EXTERNAL_PLATFORM_URL",
    "NATS_URL",
    "PLATFORM_URL",
    "PORT",
    "REDIS_URL",
    "REMOTE_LIVENESS_STALE_AFTER",
    "SECRETS_ENCRYPTION_KEY",
    "WORKSPACE_ID",
)
_OUR_PREFIXES = ("A2A_", "MAILBOX_", "MESSAGE_", "MOLECULE_", "PLUGIN_", "RATE_LIMIT")


_MEMORY = Path("/dev/shm")  # noqa: S108 - every test has a folder of its own below
_ROOM_BYTES = 3 * 1024**3  # a run holds 0.5 GB at once


# No deadline for one example: two busy cores would fail by it what is right. `make test-long` tries ten times
# as many.
settings.register_profile("usual", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=10 * settings().max_examples)
settings.load_profile("usual")


def pytest_configure() -> None:
    """Temporary files in memory where there is room: databases sync to disk in nearly every test."""
    if "TMPDIR" not in os.environ and _has_room():
        os.environ["TMPDIR"] = str(_MEMORY)
        tempfile.tempdir = None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A whole platform runs on PostgreSQL where the engine matters, and everywhere with the long tests."""
    for item in items:
        given: dict[str, object] = item.callspec.params if hasattr(item, "callspec") else {}  # type: ignore[attr-defined]
        on_postgres = "postgres" in (given.get("engine"), given.get("process"))
        if on_postgres and item.get_closest_marker("both_engines") is None:
            item.add_marker("long")


def pytest_collection_finish() -> None:
    """What was imported stays: the collector need not look at it again after every few tests."""
    gc.collect()
    gc.freeze()


def _has_room() -> bool:
    try:
        room = shutil.disk_usage(_MEMORY).free
        available = Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]
    except (OSError, IndexError):
        return False
    return min(room, int(available) * 1024) >= _ROOM_BYTES


@pytest.fixture(autouse=True, scope="session")
def statements_compiled_once() -> Iterator[None]:
    """Let all databases share what SQLAlchemy compiled: a new engine knows nothing, 50 ms in a test."""
    known: dict[tuple[object, ...], Engine] = {}

    def sharing(make: Callable[..., Any]) -> Callable[..., Any]:
        def make_and_share(*place: Any, **options: Any) -> Any:
            made = make(*place, **options)
            engine: Engine = getattr(made, "sync_engine", made)
            first = known.setdefault((engine.dialect.driver, *sorted(map(str, options.items()))), engine)
            engine.dialect = engine.pool._dialect = first.dialect
            engine._compiled_cache = first._compiled_cache
            return made

        return make_and_share

    with pytest.MonkeyPatch.context() as patch:
        for storage in (sqlite, postgres_connections):
            patch.setattr(storage, "_engine", sharing(storage._engine))
        yield


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the settings of the person who runs it."""
    for name in tuple(os.environ):
        if name in _OURS or name.startswith(_OUR_PREFIXES):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """One private PostgreSQL server for the whole run."""
    try:
        # PostgreSQL has an account of its own, which may not enter every folder.
        parent = _MEMORY if Path(tempfile.gettempdir()) == _MEMORY else servers.PARENT
        with servers.private_postgres(parent) as url:
            yield url
    except servers.ServerMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def empty_postgres(postgres_url: str) -> Iterator[str]:
    """A fresh empty database for this test alone."""
    with servers.fresh_database(postgres_url) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_pattern(postgres_url: str) -> Iterator[str]:
    """The name of a database with our schema and no rows: copying it takes a tenth of the migrations."""
    with servers.fresh_database(postgres_url) as url:
        _open_once(PostgresStorage.open, url)
        yield url.rpartition("/")[2]


@pytest.fixture
def postgres_database(postgres_url: str, postgres_pattern: str) -> Iterator[str]:
    """A fresh database with our schema for this test alone."""
    with servers.fresh_database(postgres_url, postgres_pattern) as url:
        yield url


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with our schema and no rows; tests copy it, which is much faster than the migrations."""
    path = tmp_path_factory.mktemp("pattern") / "molecule.db"
    _open_once(SqliteStorage.open, path)
    return path


def _nobody(_subjects: Sequence[str]) -> None:
    """Who hears the bells of a store that only makes its schema."""


def _open_once(open_: Callable[..., Awaitable[SqliteStorage | PostgresStorage]], place: object) -> None:
    """Let a store make its schema; on a thread of its own, because an event loop may be running here."""

    async def open_and_close() -> None:
        await (await open_(place, _nobody)).close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, open_and_close()).result()


@pytest.fixture(scope="session")
def nats_url() -> Iterator[str]:
    """One private NATS server for the whole run."""
    try:
        with servers.private_nats() as url:
            yield url
    except servers.ServerMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def self_signed() -> Callable[[Path, str], Path]:
    """Makes a key with a certificate for a host, in one file in the folder given; it vouches for itself."""
    return _self_signed


def _self_signed(folder: Path, name: str) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path = folder / "server.pem"
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path

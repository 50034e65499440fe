"""What everything stands on: settings, keys, bus, database, the first organisation."""

import os
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from molecule_platform import logs
from molecule_platform.bus.memory import MemoryBus
from molecule_platform.domain import credentials, principals
from molecule_platform.keys.keyfile import Keychain, load_keychain
from molecule_platform.keys.sealing import Keyring
from molecule_platform.ports.bus import Bus
from molecule_platform.ports.people import Org
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.support.signals import Signals
from molecule_platform.settings import Settings
from molecule_platform.storage.sqlite import SqliteStorage
from molecule_wire import ids


class StartProblem(Exception):
    """The house cannot open. The text is one sentence that says why and what to do."""


class SystemClock:
    """See `ports.clock.Clock`. Much happens within one millisecond, which is then the same moment."""

    def __init__(self) -> None:
        self._last = (0, datetime.fromtimestamp(0, UTC))

    def now(self) -> datetime:
        """The time in UTC, cut to milliseconds."""
        milliseconds = time.time_ns() // 1_000_000
        known, moment = self._last
        if milliseconds != known:
            moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
            self._last = (milliseconds, moment)
        return moment


@dataclass(frozen=True)
class Resources:
    """What everything stands on."""

    settings: Settings
    storage: Storage
    signals: Signals
    clock: SystemClock
    keychain: Keychain
    org_id: str
    admin_token: str
    replica_id: str
    log: Any

    @property
    def keyring(self) -> Keyring:
        """What seals and opens."""
        return self.keychain.ring

    @property
    def shared(self) -> bool:
        """Whether other replicas may stand on the same database."""
        return (self.settings.database_url or "").startswith("postgresql")


def issuer(settings: Settings) -> str:
    """How the platform names itself in what it signs: the origin at which agents know it."""
    known = settings.external_platform_url or settings.platform_url
    if known is None:
        host = "127.0.0.1" if settings.bind_host in ("0.0.0.0", "::", "") else settings.bind_host
        return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
    parts = urlsplit(known)
    return f"{parts.scheme}://{parts.netloc}"


async def open_resources(settings: Settings, exits: AsyncExitStack) -> Resources:
    """Open keys, bus and database; `exits` closes them."""
    _make_data_dir(settings.data_dir)
    keychain = load_keychain(settings.data_dir, settings.secrets_encryption_key)
    admin_token = settings.admin_token or _admin_token(settings.data_dir / "admin.token")
    bus = _bus(settings)
    await bus.start()
    exits.push_async_callback(bus.close)
    signals = Signals(bus)
    await signals.start()
    storage = await _open_storage(settings, signals)
    exits.push_async_callback(storage.close)
    clock = SystemClock()
    org_id = await storage.write(lambda tx: _first_org(tx, settings.org_slug, clock.now()))
    log = logs.to_stderr(settings.environment)
    return Resources(settings, storage, signals, clock, keychain, org_id, admin_token, ids.uuid7(), log)


# The clients of NATS and PostgreSQL take half a second to import; the embedded default does without them.


def _bus(settings: Settings) -> Bus:
    if settings.nats_url is None:
        return MemoryBus()
    from molecule_platform.bus.nats import NatsBus

    return NatsBus(settings.nats_url)


async def _open_storage(settings: Settings, signals: Signals) -> Storage:
    url = settings.database_url
    if url is not None and url.startswith("postgresql"):
        from molecule_platform.storage.postgres import PostgresStorage

        return await PostgresStorage.open(url, signals.notify)
    path = settings.data_dir / "molecule.db" if url is None else Path(url.removeprefix("sqlite:///"))
    return await SqliteStorage.open(path, signals.notify)


def _first_org(tx: Transaction, slug: str, now: datetime) -> str:
    org = tx.people.first_org()
    if org is None:
        org = Org(ids.uuid7(), slug, "Default organisation", now)
        tx.people.insert_org(org)
    tx.people.put_member(principals.ADMINISTRATOR, org.id, "owner", now)
    tx.people.set_platform_admin(principals.ADMINISTRATOR, True)
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

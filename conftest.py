"""Fixtures of the whole workspace: private real servers and a clean environment."""

import os
from collections.abc import Iterator

import pytest

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
        with servers.private_postgres() as url:
            yield url
    except servers.ServerMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """A fresh empty database for this test alone."""
    with servers.fresh_database(postgres_url) as url:
        yield url


@pytest.fixture(scope="session")
def nats_url() -> Iterator[str]:
    """One private NATS server for the whole run."""
    try:
        with servers.private_nats() as url:
            yield url
    except servers.ServerMissing as missing:
        pytest.skip(str(missing))

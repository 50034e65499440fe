"""Getting a plugin's archive from the platform, and the list of what must no longer be installed."""

import contextlib
import hashlib
import logging
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import requests

from molecule_agent import errors, responses
from molecule_plugin import revocations
from molecule_plugin.errors import PluginSignatureError, PluginTooLargeError, SHA256MismatchError
from molecule_plugin.keys import from_base64url
from molecule_plugin.limits import LIMITS
from molecule_plugin.revocations import CachedRevocations, Revocations
from molecule_plugin.trust import Policy
from molecule_wire.calls import Request, plugins, workspaces

if TYPE_CHECKING:
    from molecule_agent.client import RemoteAgentClient

CHUNK_BYTES = 64 * 1024
CACHE_FILE = ".revocations"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ArchiveInfo:
    """What came beside an archive."""

    delivered: plugins.Delivered
    archive_sha256: str
    signature: bytes | None
    genuine: bool
    """Whether it came over HTTP, and not from a test's double of a session."""


def fetch(client: "RemoteAgentClient", request: Request, archive: BinaryIO) -> ArchiveInfo:
    """Write the archive to a file, as much of it as a plugin may have."""
    digest, size = hashlib.sha256(), 0
    with _opened(client._download(request)) as response, errors.translated():
        delivered = responses.read_head(response, plugins.read_delivered)
        for chunk in _chunks(response):
            size += len(chunk)
            if size > LIMITS.archive_bytes:
                raise PluginTooLargeError(
                    f"the archive is larger than {LIMITS.archive_bytes} bytes", LIMITS.archive_bytes
                )
            digest.update(chunk)
            archive.write(chunk)
    found = digest.hexdigest()
    if delivered.archive_sha256 not in ("", found):
        raise SHA256MismatchError(
            "the archive arrived damaged: "
            f"expected sha256 {delivered.archive_sha256}, found {found}; try again",
            delivered.archive_sha256,
            found,
        )
    return ArchiveInfo(delivered, found, _signature(delivered.signature), type(response) is requests.Response)


def revoked(client: "RemoteAgentClient", policy: Policy, *, ask: bool) -> tuple[Revocations, tuple[str, ...]]:
    """The list of revocations to go by, and warnings; without asking, the copy on disk."""
    path = client.token_file.with_name(CACHE_FILE)
    cached, now = revocations.read_cache(path), client._clock.time()
    if not ask and policy != "require":
        return (cached.revocations if cached else Revocations()), ()
    fetched = _ask(client) if ask else None
    chosen, warnings = revocations.choose(cached, fetched, now, policy)
    if fetched is not None:
        client._store.make_directory()
        revocations.write_cache(path, CachedRevocations(fetched, now))
    return chosen, warnings


def _ask(client: "RemoteAgentClient") -> Revocations | None:
    try:
        return revocations.parse_revocations(client._perform(plugins.revocations(), workspaces.read_object))
    except (errors.MoleculeError, requests.RequestException) as error:
        log.info("the revocation list could not be fetched: %s", error)
        return None


@contextlib.contextmanager
def _opened(response: requests.Response) -> Generator[requests.Response]:
    """The response, closed in the end; a double need not be a context manager, nor give itself as one."""
    if not hasattr(response, "__enter__"):
        yield response
        return
    with response as opened:
        yield opened if _is_streamed(opened) or _has_content(opened) else response


def _chunks(response: requests.Response) -> Iterator[bytes]:
    return response.iter_content(CHUNK_BYTES) if _is_streamed(response) else iter((response.content,))


def _is_streamed(response: object) -> bool:
    return isinstance(response, requests.Response)


def _has_content(response: object) -> bool:
    return isinstance(getattr(response, "content", None), bytes)


def _signature(header: str) -> bytes | None:
    if not header:
        return None
    try:
        return from_base64url(header)
    except ValueError:
        raise PluginSignatureError("the signature that came with the plugin is not base64url") from None

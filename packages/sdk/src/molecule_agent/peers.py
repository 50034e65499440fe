"""Calling a peer: which one is meant, where it is, how a message reaches it, waiting for its answer."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from molecule_agent import errors, handlers
from molecule_wire import JSONObject, ids
from molecule_wire.a2a import text
from molecule_wire.calls import PeerInfo, Request, a2a, registry, values

if TYPE_CHECKING:
    from molecule_agent.calls import PlatformCalls

OPEN_STATES = frozenset({"submitted", "working"})
INITIAL_POLL_SECONDS, MAX_POLL_SECONDS = 1.0, 5.0
CALL_TIMEOUT = 30.0

T = TypeVar("T")

log = logging.getLogger(__name__)


def resolve(client: "PlatformCalls", peer: str) -> str:
    """The id of a peer that is named by its id, its name or its path (`lead/writer`).

    Raises NotFoundError when nobody is called so, AmbiguousPeerError when several are.
    """
    if ids.is_uuid(peer):
        return peer
    with client._lock:
        known, expiry = client._known_peers
    is_fresh = bool(known) and client._clock.time() < expiry
    found = _named(client, known, peer) if is_fresh else []
    if not found:  # nobody yet, or somebody who came since
        found = _named(client, client.get_peers(), peer)
    if not found:
        raise errors.NotFoundError(
            f"no peer is called {peer!r}; get_peers() lists those that this workspace may call", status=404
        )
    if len(found) > 1:
        listed = ", ".join(f"{one.id} ({'/'.join(_path(client, one))})" for one in found)
        raise errors.AmbiguousPeerError(f"{peer!r} may mean {listed}: give the id, or more of the path")
    return found[0].id


def by_any_name(client: "PlatformCalls", peer: str, call: Callable[[str], T]) -> T:
    """Make a call with what was given; where the platform knows no such id, with the peer of that name."""
    try:
        return call(peer)
    except (errors.BadRequestError, errors.NotFoundError) as refused:
        if ids.is_uuid(peer) or (refused.status == 400 and refused.code != "invalid-id"):
            raise
        try:
            found = resolve(client, peer)
        except errors.AmbiguousPeerError:
            raise
        except Exception:  # noqa: BLE001 - what was refused stays refused, whoever else cannot be found
            raise refused from None
    return call(found)


def _named(client: "PlatformCalls", known: list[PeerInfo], peer: str) -> list[PeerInfo]:
    """The peers of that name, else of that name in any case, else of that path."""
    steps, folded = peer.strip("/").split("/"), peer.strip("/").casefold()

    def path(one: PeerInfo) -> list[str]:
        return _path(client, one)[-len(steps) :]

    return (
        [one for one in known if peer in (one.id, one.name)]
        or [one for one in known if one.name.casefold() == folded]
        or [one for one in known if len(steps) > 1 and path(one) == steps]
        or [one for one in known if len(steps) > 1 and "/".join(path(one)).casefold() == folded]
    )


def _path(client: "PlatformCalls", peer: PeerInfo) -> list[str]:
    """The names from the root of the tree to a peer, as far as this workspace sees it."""
    above = {one.id: one.name for one in client._known_peers[0]}
    path, parent = [peer.name], client._peer_parents.get(peer.id, "")
    while parent and len(path) <= len(above) + 1:
        if parent == client.workspace_id and parent not in above:
            above[parent] = values.text_of(client.whoami().get("name"))
        path.insert(0, above.get(parent, "…"))
        parent = client._peer_parents.get(parent, "")
    return path


def remember(client: "PlatformCalls", found: list[PeerInfo], rows: list[JSONObject], *, is_all: bool) -> None:
    """Keep who the peers are, and their URLs, for a while."""
    expiry = client._clock.time() + client.url_cache_ttl
    with client._lock:
        if is_all:
            client._known_peers = (found, expiry)
            client._peer_parents = {str(row["id"]): values.text_of(row.get("parent_id")) for row in rows}
        client._url_cache.update({p.id: (p.url, expiry) for p in found if registry.is_web_url(p.url)})


def discover(client: "PlatformCalls", target_id: str) -> str | None:
    """Where a peer can be called, remembered while fresh."""
    with client._lock:
        url, expiry = client._url_cache.get(target_id, ("", 0.0))
        if url and client._clock.time() < expiry:
            return url
        client._url_cache.pop(target_id, None)
    found = client._perform(registry.discover(client.workspace_id, target_id), registry.read_discovery)
    if found:
        with client._lock:
            client._url_cache[target_id] = (found, client._clock.time() + client.url_cache_ttl)
    return found


def fresh_id() -> str:
    """A random UUID."""
    import uuid  # it looks at the platform when loaded, which a mere import of the SDK need not pay for

    return str(uuid.uuid4())


def message_to(
    workspace_id: str,
    target_id: str,
    message: str,
    *,
    timeout: float = CALL_TIMEOUT,
    context_id: str | None = None,
    message_id: str | None = None,
    metadata: JSONObject | None = None,
) -> Request:
    """Make the request that carries a text to a peer, with ids of its own, and what it is sent for."""
    if parent := handlers.message_in_hand.get():
        metadata = {"parent_message_id": parent, **(metadata or {})}
    return a2a.send(
        workspace_id,
        target_id,
        message,
        rpc_id=fresh_id(),
        message_id=message_id or fresh_id(),
        context_id=context_id,
        metadata=metadata,
        timeout=timeout,
    )


def deliver(
    client: "PlatformCalls", target_id: str, request: Request, *, prefer_direct: bool = True
) -> JSONObject:
    """Send a message to the peer's URL when there is one, else (or if that fails) through the platform."""
    proxy = client.proxy_url(target_id)
    url = _direct_url(client, target_id) if prefer_direct else None
    if url and url != proxy:
        try:
            return client._post_message(url, request)
        except Exception as error:  # noqa: BLE001 - whatever a peer's own door does, the platform is asked next
            log.warning("direct call of %s failed (%s); trying the platform", target_id, error)
            client.invalidate_peer_url(target_id)
    return client._post_message(proxy, request)


def ask(
    client: "PlatformCalls", target_id: str, message: str, timeout: float, context_id: str | None = None
) -> str:
    """Send a text and follow the task that comes back until its answer is there."""
    deadline = client._clock.monotonic() + timeout
    first = message_to(
        client.workspace_id,
        target_id,
        message,
        timeout=min(timeout, CALL_TIMEOUT),
        context_id=context_id,
    )
    result = _result_of(deliver(client, target_id, first))
    pause = INITIAL_POLL_SECONDS
    while (task_id := _open_task(result)) is not None:
        if client._clock.monotonic() + pause > deadline:
            raise errors.DeadlineExceededError(f"{target_id} did not answer within {timeout:g} s", status=504)
        client._clock.sleep(pause)
        pause = min(pause * 2, MAX_POLL_SECONDS)
        result = _look_again(client, target_id, task_id) or result
    return _answer_of(result)


def _look_again(client: "PlatformCalls", target_id: str, task_id: str) -> JSONObject | None:
    """How far a task is; `None` while the platform, which has accepted the message, is away."""
    look = a2a.get_task(client.workspace_id, target_id, task_id, rpc_id=fresh_id())
    try:
        return _result_of(client._post_message(client.proxy_url(target_id), look))
    except (errors.PlatformUnreachableError, errors.PlatformTimeoutError, errors.RateLimitedError) as error:
        log.info("the task of %s cannot be read yet: %s", target_id, error)
    except errors.ApiError as error:
        if error.status < 500:
            raise
        log.info("the task of %s cannot be read yet: %s", target_id, error)
    return None


def _direct_url(client: "PlatformCalls", target_id: str) -> str | None:
    try:
        return client.discover_peer(target_id)
    except Exception as error:  # noqa: BLE001 - as above
        log.warning("discovery of %s failed (%s); trying the platform", target_id, error)
        return None


def _result_of(envelope: JSONObject) -> JSONObject:
    error = values.object_of(envelope.get("error"))
    if error:
        code = int(values.number_of(error.get("code")) or -32603)
        raise errors.A2AError(code, values.text_of(error.get("message")), error.get("data"))
    return values.object_of(envelope.get("result"))


def _state_of(result: JSONObject) -> str:
    return values.text_of(values.object_of(result.get("status")).get("state"))


def _open_task(result: JSONObject) -> str | None:
    return values.text_of(result.get("id")) if _state_of(result) in OPEN_STATES else None


def _answer_of(result: JSONObject) -> str:
    answer = text.text_of(result)
    state = _state_of(result)
    if state in ("failed", "canceled", "rejected"):
        raise errors.A2AError(-32603, answer or f"the peer's task ended as {state}", result)
    return answer

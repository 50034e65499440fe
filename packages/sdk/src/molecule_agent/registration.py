"""Becoming a member: registration, and the ladder of proofs for an agent whose token is no longer taken."""

import logging
from typing import TYPE_CHECKING

from molecule_agent import errors, responses
from molecule_wire.calls import Registration, Request, registry

if TYPE_CHECKING:
    from molecule_agent.client import RemoteAgentClient

INITIAL_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 60.0, 900.0
PREFIX = 8

log = logging.getLogger(__name__)


def register(client: "RemoteAgentClient") -> str:
    """Announce the agent; returns the token in use, or `""` when there is none."""
    try:
        answer = client._perform(_request(client), registry.read_registration)
    except errors.NotFoundError as error:
        advice = f"the workspace {client.workspace_id} must be created first"
        raise errors.with_advice(error, advice) from error
    except errors.AuthenticationError as error:
        return _after_refusal(client, error)
    if answer.applied:
        client._announced_secret = client._dispatch_secret
    if answer.auth_token:
        return accept(client, answer)
    return client.load_token() or _without_token(client) if answer.applied else _not_applied(client)


def accept(client: "RemoteAgentClient", answer: Registration) -> str:
    """Keep a minted token; its recovery secret first, so that a crash in between can still recover."""
    if answer.recovery_secret:
        client._keep_recovery(answer.auth_token, answer.recovery_secret)
    client.save_token(answer.auth_token)
    log.info("registered %s; token %s…", client.workspace_id, answer.auth_token[:PREFIX])
    return answer.auth_token


class Reauthenticator:
    """Tries, rung by rung, what may prove that this is the agent: token file, recovery, enrolment."""

    def __init__(self, client: "RemoteAgentClient", enrolment_token: str | None) -> None:
        self._client = client
        self._enrolment_token = enrolment_token or ""
        self._not_before = 0.0
        self._pause = INITIAL_PAUSE_SECONDS

    def reauthenticate(self, rejected: str | None, *, forced: bool = False) -> str | None:
        """Return a token that may work, or `None`; raises `EnrolmentError` when a proof was refused.

        Unless forced, proofs are sent at most once a minute, less often the longer nothing helps.
        """
        if found := self._token_on_disk(rejected):
            return found
        now = self._client._clock.monotonic()
        if now < self._not_before and not forced:
            return None
        self._not_before, self._pause = now + self._pause, min(self._pause * 2, MAX_PAUSE_SECONDS)
        token = self._by_proof(rejected)
        if token:
            self._not_before, self._pause = 0.0, INITIAL_PAUSE_SECONDS
        return token

    def reenrol(self, enrolment_token: str | None) -> str:
        """Climb now; an enrolment token given here is used at once."""
        if enrolment_token:
            self._enrolment_token = enrolment_token
            token = self._by_enrolment()
        else:
            token = self.reauthenticate(self._client.load_token(), forced=True)
        if token is None:
            raise errors.AuthenticationError(advice(self._client), status=401)
        return token

    def _token_on_disk(self, rejected: str | None) -> str | None:
        found = self._client._store.load_token()
        if not found or found == rejected:
            return None
        with self._client._lock:
            self._client._token = found
        return found

    def _by_proof(self, rejected: str | None) -> str | None:
        refusal: errors.AuthenticationError | None = None
        for method in (self._by_recovery, self._by_enrolment):
            try:
                if token := method():
                    return token
            except errors.AuthenticationError as error:
                refusal = error
        # The proof may have been refused because another process of this agent has just used it.
        token = self._token_on_disk(rejected)
        if token is None and refusal is not None:
            raise errors.with_advice(refusal, advice(self._client)) from refusal
        return token

    def _by_recovery(self) -> str | None:
        secret = self._client._recovery_in_memory() or self._client._store.load_recovery()
        if not secret:
            return None
        try:
            return self._exchange(recovery_secret=secret)
        except errors.EnrolmentError:
            self._client._unsaved_recovery = ("", "")
            self._client._store.discard_recovery(secret)
            raise

    def _by_enrolment(self) -> str | None:
        if not self._enrolment_token:
            return None
        try:
            token = self._exchange(enrolment_token=self._enrolment_token)
        except errors.EnrolmentError:
            self._enrolment_token = ""
            raise
        self._enrolment_token = "" if token else self._enrolment_token
        return token

    def _exchange(self, *, recovery_secret: str = "", enrolment_token: str = "") -> str | None:
        request = _request(self._client, recovery_secret=recovery_secret, enrolment_token=enrolment_token)
        response = self._client._post(request, headers=self._client._tenant_headers())
        answer = responses.read(response, registry.read_registration)
        self._client._announced_secret = self._client._dispatch_secret
        return accept(self._client, answer) if answer.auth_token else None


def advice(client: "RemoteAgentClient") -> str:
    """What a person must do when no proof is left."""
    return (
        "ask an administrator for an enrolment token"
        f" (molecule workspace enrol {client.workspace_id}) and give it to this agent"
    )


def _request(client: "RemoteAgentClient", *, recovery_secret: str = "", enrolment_token: str = "") -> Request:
    return registry.register(
        client.workspace_id,
        client.reported_url,
        client.agent_card,
        recovery_secret=recovery_secret,
        enrolment_token=enrolment_token,
        dispatch_secret=client._dispatch_secret,
        replaces_worker=client._worker_file.predecessor(),
    )


def _after_refusal(client: "RemoteAgentClient", error: errors.AuthenticationError) -> str:
    token = client._reauthenticator.reauthenticate(client.load_token())
    if token is None:
        raise errors.with_advice(error, advice(client)) from error
    return token


def _not_applied(client: "RemoteAgentClient") -> str:
    log.warning(
        "the platform did not apply the registration of %s: it is already claimed", client.workspace_id
    )
    return client.load_token() or _without_token(client)


def _without_token(client: "RemoteAgentClient") -> str:
    token = client._reauthenticator.reauthenticate(None)
    if token is None:
        log.warning("register returned no auth_token and no cached token exists; %s", advice(client))
    return token or ""

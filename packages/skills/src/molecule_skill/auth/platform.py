"""Verification of callers for whom the platform vouches, by the header `X-Molecule-Caller`."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import cast

from pydantic import BaseModel

from molecule_skill import signatures
from molecule_skill.errors import AuthError
from molecule_skill.identity import AuthResolver, PlatformAuth
from molecule_wire import JSON, JSONObject, assertions, jsontext
from molecule_wire.caller_keys import FETCH_TIMEOUT_SECONDS, MAX_DOCUMENT_BYTES, KeyCache, VerificationKeys
from molecule_wire.callers import CallerCheck

ROW_HEADER = "x-molecule-message-id"

asserted_message_id: ContextVar[str] = ContextVar("molecule_asserted_message_id", default="")
"""The id of the message that this request's assertion was made for; whoever reads the body compares it."""

log = logging.getLogger("molecule_skill")


class PlatformResolver(AuthResolver):
    """Verifies the platform's assertion about a caller; no other header says who calls.

    Without arguments the platform is `PLATFORM_URL` and the workspace `WORKSPACE_ID` of the environment. An
    assertion is good for one request: `resolve` uses it up.
    """

    def __init__(
        self,
        platform_url: str | None = None,
        workspace_id: str | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        url = platform_url or os.environ.get("PLATFORM_URL", "")
        workspace = workspace_id or os.environ.get("WORKSPACE_ID", "")
        if not url or not workspace:
            raise ValueError("set PLATFORM_URL and WORKSPACE_ID: callers are verified against the platform")
        self.workspace_id = workspace
        self._cache = KeyCache(url.rstrip("/"))
        self._check = CallerCheck(workspace, signatures.verify_ed25519)
        self._clock = clock
        self._fetching: asyncio.Task[None] | None = None

    async def resolve(self, token: str | None, *, headers: Mapping[str, str], agent: str) -> PlatformAuth:
        """The caller whom the platform names. Raises AuthError."""
        signatures.require_crypto()
        header = headers.get(assertions.HEADER.lower(), "").strip()
        if not header:
            sentence = f"{assertions.HEADER} is missing: only the platform may call this agent"
            raise _refused(sentence, "caller-unverified")
        try:
            assertion = assertions.parse(header)
            keys = await self._keys(assertion.kid)
            caller = self._check.caller(assertion, keys, self._clock(), row=headers.get(ROW_HEADER, ""))
        except assertions.AssertionRefused as problem:
            sentence = f"{assertions.HEADER} is not valid: {problem}"
            raise _refused(sentence, "caller-assertion-invalid") from problem
        asserted_message_id.set(str(caller.get("message_id") or ""))
        principal = str(caller["principal"])
        kind, _, name = principal.partition(":")
        org = caller.get("org")
        return PlatformAuth(
            principal=principal,
            org_id=org if isinstance(org, str) and org else None,
            workspace_id=name if kind == "workspace" else None,
            scopes=_scopes(assertion.claims),
            delegation_depth=_depth(caller),
        )

    def principal_id(self, model: BaseModel) -> str:
        """The principal of the assertion, as it stands."""
        return cast("PlatformAuth", model).principal

    async def _keys(self, kid: str) -> VerificationKeys:
        while True:
            decision = self._cache.look(kid, time.monotonic())
            if decision.action == "unavailable":
                raise AuthError(
                    "the caller cannot be verified now: the platform's keys are out of reach", 503
                )
            if decision.action == "fetch":
                # In a task of its own: a caller that hangs up must not end the fetch of the others.
                self._fetching = asyncio.create_task(self._fetch())
            if decision.keys is not None:
                return decision.keys
            if self._fetching is not None:
                await asyncio.wait({self._fetching})

    async def _fetch(self) -> None:
        from molecule_skill.http_client import HttpClient

        document: JSON = None
        client = HttpClient(allow_private=True)
        try:
            reply = await client.send(
                "GET",
                self._cache.document_url,
                timeout=FETCH_TIMEOUT_SECONDS,
                max_bytes=MAX_DOCUMENT_BYTES,
            )
            document = jsontext.decode(reply.body) if reply.status == 200 else None
        except (OSError, ValueError) as problem:
            log.warning("the keys of %s could not be fetched: %s", self._cache.platform_url, problem)
        finally:
            self._cache.end_fetch(document, time.monotonic())
            await client.close()


def _refused(sentence: str, code: str) -> AuthError:
    problem = AuthError(sentence)
    problem.code = code
    return problem


def _scopes(claims: JSONObject) -> tuple[str, ...]:
    named = claims.get("scopes")
    return tuple(one for one in named if isinstance(one, str)) if isinstance(named, list) else ()


def _depth(caller: JSONObject) -> int:
    context = caller.get("delegation")
    depth = context.get("depth") if isinstance(context, dict) else None
    return depth if isinstance(depth, int) and not isinstance(depth, bool) else 0

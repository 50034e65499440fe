"""The HTTP listener on this host: messages, cancellations and health."""

import hmac
import logging
from typing import Any, Protocol

from aiohttp import web

from .messages import (
    MAX_BODY_BYTES,
    BadRequest,
    InboundMessage,
    parse_message,
    parse_object,
)
from .replies import SECRET_HEADER

logger = logging.getLogger(__name__)

FEATURES = ("cancel", "final")
RETRY_AFTER_SECONDS = 1


class Inbox(Protocol):
    """Where the listener brings what it received."""

    def unready_reason(self) -> str:
        """Why no message can be taken now: `starting`, `stopping` or `full`; empty when one can."""
        ...

    def submit(self, message: InboundMessage) -> bool:
        """Take a message; False when it was taken before."""
        ...

    def cancel(self, message_id: str) -> bool:
        """End a message without an answer; whether it was known and unanswered."""
        ...


class Listener:
    """Serves `/a2a/inbound`, `/a2a/cancel` and `/a2a/health`."""

    def __init__(
        self, inbox: Inbox, name: str, version: str, secret: str, allowed_hosts: frozenset[str]
    ) -> None:
        self._inbox = inbox
        self._identity = {"platform": name, "version": version, "features": list(FEATURES)}
        self._secret = secret.encode()
        self._allowed_hosts = allowed_hosts
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> None:
        """Bind the port; raises OSError when it is taken."""
        await self.stop()
        # One byte more than the limit, since aiohttp refuses a body that is as long as its own.
        application = web.Application(client_max_size=MAX_BODY_BYTES + 1)
        application.router.add_get("/a2a/health", self._health)
        application.router.add_post("/a2a/inbound", self._inbound)
        application.router.add_post("/a2a/cancel", self._cancel)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner

    async def stop(self) -> None:
        """Free the port."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _health(self, request: web.Request) -> web.Response:
        reason = self._inbox.unready_reason()
        if reason and reason != "full":
            return _unready(reason)
        return _json(200, {"ok": True, **self._identity})

    async def _inbound(self, request: web.Request) -> web.Response:
        if not self._is_known(request):
            return _refusal(401, "unauthorized")
        if reason := self._inbox.unready_reason():
            return _unready(reason)
        try:
            message = parse_message(parse_object(await _read(request)), self._allowed_hosts)
        except web.HTTPRequestEntityTooLarge:
            return _refusal(413, f"the body has more than {MAX_BODY_BYTES} bytes")
        except BadRequest as problem:
            return _refusal(400, str(problem))
        if not self._inbox.submit(message):
            return _json(200, {"ok": True, "duplicate": True, "message_id": message.message_id})
        logger.info(
            "molecule-a2a: accepted message_id=%s, %d characters", message.message_id, len(message.content)
        )
        return _json(202, {"ok": True, "message_id": message.message_id})

    async def _cancel(self, request: web.Request) -> web.Response:
        if not self._is_known(request):
            return _refusal(401, "unauthorized")
        try:
            message_id = parse_object(await _read(request)).get("message_id")
        except (web.HTTPRequestEntityTooLarge, BadRequest):
            message_id = None
        found = isinstance(message_id, str) and self._inbox.cancel(message_id)
        return _json(200, {"ok": True, "found": found})

    def _is_known(self, request: web.Request) -> bool:
        secret = request.headers.get(SECRET_HEADER, "").encode(errors="surrogateescape")
        return not self._secret or hmac.compare_digest(secret, self._secret)


async def _read(request: web.Request) -> bytes:
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES, request.content_length or 0)
    return await request.read()


def _unready(reason: str) -> web.Response:
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return web.json_response({"ok": False, reason: True}, status=503, headers=headers)


def _refusal(status: int, error: str) -> web.Response:
    return _json(status, {"ok": False, "error": error})


def _json(status: int, body: dict[str, Any]) -> web.Response:
    return web.json_response(body, status=status)

"""Replies to the runtime: a POST to the address that came with the message."""

import asyncio
import json
import logging
from typing import Any

import aiohttp

from .messages import InboundMessage

logger = logging.getLogger(__name__)

SECRET_HEADER = "X-Molecule-A2A-Secret"  # noqa: S105 - the name, not the value
RETRY_SECONDS = (1.0, 2.0, 4.0)
TIMEOUT_SECONDS = 10.0


class ReplySender:
    """Posts replies; one HTTP session for the life of the listener."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self, message: InboundMessage, content: str, *, final: bool, retry: bool = True, **extra: Any
    ) -> bool:
        """Post one reply, a final one with retries; whether the runtime took it."""
        body = {
            "chat_id": message.chat_id,
            "content": content,
            "reply_to": message.message_id,
            "metadata": {"final": final, **extra},
        }
        data = json.dumps(body).encode()
        for delay in (*(RETRY_SECONDS if final and retry else ()), None):
            status = await self._post(message.callback_url, data)
            if 200 <= status < 300:
                return True
            if delay is None or 300 <= status < 500:
                break
            await asyncio.sleep(delay)
        logger.warning("molecule-a2a: no reply for message_id=%s could be sent", message.message_id)
        return False

    async def close(self) -> None:
        """Close the HTTP session."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _post(self, url: str, data: bytes) -> int:
        """The status; 0 when there was no connection. A `stale` answer has status 200 and is the end too."""
        if self._session is None or self._session.closed:
            # No proxy and no redirect: the address was checked, another one was not.
            timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
            self._session = aiohttp.ClientSession(timeout=timeout, trust_env=False)
        headers = {"Content-Type": "application/json"}
        if self._secret:
            headers[SECRET_HEADER] = self._secret
        try:
            async with self._session.post(url, data=data, headers=headers, allow_redirects=False) as answer:
                return answer.status
        except (aiohttp.ClientError, OSError, TimeoutError):
            return 0

"""Webhooks: tell a client at the URL it gave what happened to its task."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from molecule_platform.egress import exchange, guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.ports.webhooks import WebhookResult

SECONDS = 15.0
# What a webhook answers is not read, only so much of it that the connection can be used again.
MOST_BYTES = 64 * 1024
MAX_WAIT_SECONDS = 24 * 3600.0


class WebhookClient:
    """See `ports.push.Webhooks`."""

    def __init__(self, outbound: Outbound, now: Callable[[], datetime], seconds: float = SECONDS) -> None:
        self._outbound = outbound
        self._now = now
        self._seconds = seconds

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> WebhookResult:
        """POST to a checked address, once."""
        try:
            answer = await exchange.tell(
                self._outbound, url, headers=headers, data=body, seconds=self._seconds, most_bytes=MOST_BYTES
            )
        except guard.UnsafeUrl as problem:
            return WebhookResult(None, str(problem))
        except exchange.NoResponse as problem:
            return WebhookResult(None, str(problem))
        wait = retry_after(answer.headers.get("retry-after", ""), self._now())
        return WebhookResult(answer.status, _sentence(answer.status), wait)


def retry_after(given: str, now: datetime) -> float | None:
    """Seconds to wait as a server asks for them, by number or by date; None when it asks for nothing."""
    if given.isascii() and given.isdecimal():
        return min(float(given[:9]), MAX_WAIT_SECONDS)
    try:
        at = parsedate_to_datetime(given)
    except ValueError:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return min(max(0.0, (at - now).total_seconds()), MAX_WAIT_SECONDS)


def _sentence(status: int) -> str:
    if 300 <= status < 400:
        return f"the webhook answered HTTP {status}; redirects are not followed: register the final URL"
    return f"the webhook answered HTTP {status}"

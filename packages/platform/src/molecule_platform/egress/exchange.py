"""One request and its whole answer, through the guard."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from molecule_platform.egress import streaming
from molecule_platform.egress.connector import Outbound
from molecule_platform.egress.errors import BodyTooLarge as BodyTooLarge
from molecule_platform.egress.errors import NoResponse as NoResponse


@dataclass(frozen=True)
class HttpResponse:
    """What the other side answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def exchange(
    outbound: Outbound,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    data: bytes | None,
    seconds: float,
    most_bytes: int,
    whom: str = "the agent",
) -> HttpResponse:
    """Send a request and read its answer. Raises `guard.UnsafeUrl`, `NoAnswer` or `AnswerTooLarge`."""
    async with streaming.opened(
        outbound,
        url,
        headers=headers,
        data=data,
        seconds=seconds,
        most_bytes=most_bytes,
        method=method,
        whom=whom,
    ) as answer:
        return HttpResponse(answer.status, answer.headers, await answer.body())


async def tell(
    outbound: Outbound,
    url: str,
    *,
    headers: Mapping[str, str],
    data: bytes,
    seconds: float,
    most_bytes: int,
) -> HttpResponse:
    """POST to a webhook, whose status counts and whose words do not. Raises `guard.UnsafeUrl` or `NoAnswer`.

    So much of the answer is read and thrown away; a longer one costs the connection and nothing else.
    """
    async with streaming.opened(
        outbound,
        url,
        headers=headers,
        data=data,
        seconds=seconds,
        most_bytes=most_bytes,
        whom="the webhook",
    ) as answer:
        with suppress(BodyTooLarge):
            await answer.body()
        return HttpResponse(answer.status, answer.headers, b"")

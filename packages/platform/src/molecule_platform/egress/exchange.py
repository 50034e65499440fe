"""One request and its whole answer, through the guard."""

from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

from molecule_platform.egress import guard
from molecule_platform.egress.connector import Outbound


@dataclass(frozen=True)
class Exchanged:
    """What the other side answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoAnswer(Exception):
    """No whole answer came. `sent` tells whether the other side may have seen the request."""

    def __init__(self, sentence: str, *, sent: bool) -> None:
        super().__init__(sentence)
        self.sent = sent


class AnswerTooLarge(Exception):
    """The other side answered with more than allowed."""


async def exchange(
    outbound: Outbound,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    data: bytes | None,
    seconds: float,
    most_bytes: int,
) -> Exchanged:
    """Send a request and read its answer. Raises `guard.UnsafeUrl`, `NoAnswer` or `AnswerTooLarge`."""
    try:
        async with outbound.request(
            method, url, headers=headers, data=data, total_seconds=seconds
        ) as response:
            body = await _read(response, most_bytes)
            return Exchanged(response.status, {k.lower(): v for k, v in response.headers.items()}, body)
    except aiohttp.ClientConnectorError as problem:
        raise NoAnswer("the agent's address does not accept connections", sent=False) from problem
    except guard.UnresolvedHost as problem:
        raise NoAnswer(str(problem), sent=False) from problem
    except TimeoutError as problem:
        raise NoAnswer("the agent did not answer in time", sent=True) from problem
    except (aiohttp.ClientError, OSError) as problem:
        raise NoAnswer("the connection to the agent broke", sent=True) from problem


async def _read(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > most_bytes:
            raise AnswerTooLarge(f"the agent's answer is larger than {most_bytes} bytes")
        chunks.append(chunk)
    return b"".join(chunks)

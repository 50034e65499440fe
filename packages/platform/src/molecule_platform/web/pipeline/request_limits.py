"""Bounded reading of request bodies: bytes in work are counted, large texts are read beside the event loop.

A body that arrives whole with its head is small, and is not counted. Any other counts, as far as it has come,
for its sender and for the process until its request is answered; above either bound it is refused with 503.
"""

from collections import Counter
from functools import partial
from typing import cast

from molecule_platform.domain.errors import ApiError
from molecule_platform.services.support.worker_thread import run_in_thread_if_large
from molecule_platform.web.exchange import ClientDisconnected, HttpExchange, Overloaded, TooLarge
from molecule_platform.web.pipeline.request import EdgeSettings
from molecule_wire.jsonlimits import JSONLimits, TooMuch

RETRY_AFTER_SECONDS = 2


class BodyBudget:
    """The bytes of one request in work. Closing it gives them back; harmless when repeated."""

    __slots__ = ("_bodies", "_principal", "_size")

    def __init__(self, bodies: "BodyReader", principal: str) -> None:
        self._bodies = bodies
        self._principal = principal
        self._size = 0

    def add(self, size: int) -> bool:
        """So many bytes more; whether there is room for them."""
        self._size += size
        return self._bodies.add(self._principal, size)

    def close(self) -> None:
        """The request is answered."""
        size, self._size = self._size, 0
        if size:
            self._bodies.add(self._principal, -size)

    def refusal(self) -> ApiError:
        """Why there is no room."""
        return self._bodies.refusal(self._principal)


class BodyReader:
    """Receives and checks the bodies of all requests of this process."""

    def __init__(self, edge: EdgeSettings) -> None:
        self._edge = edge
        self._in_work = 0
        self._by_principal: Counter[str] = Counter()

    def account(self, principal: str) -> BodyBudget:
        """An account for one request of a principal, or of the address of a stranger."""
        return BodyBudget(self, principal)

    def add(self, principal: str, size: int) -> bool:
        """Count bytes of a principal, or take them off; whether all of them are within the bounds."""
        self._in_work += size
        self._by_principal[principal] += size
        if self._by_principal[principal] <= 0:
            del self._by_principal[principal]
        return (
            self._in_work <= self._edge.work_max_bytes
            and self._by_principal[principal] <= self._edge.principal_work_max_bytes
        )

    def refusal(self, principal: str) -> ApiError:
        """The refusal of a body for which there is no room now."""
        own = self._edge.principal_work_max_bytes
        is_own = self._by_principal[principal] > own
        limit, most = ("principal-work", own) if is_own else ("process-work", self._edge.work_max_bytes)
        whose = "you have" if is_own else "the platform has"
        sentence = f"{whose} more than {most} bytes of large requests in work: try again in a moment"
        return ApiError(
            "platform-unavailable", sentence, retry_after=RETRY_AFTER_SECONDS, limit=limit, maximum=most
        )

    async def read(self, exchange: HttpExchange, most: int, account: BodyBudget) -> bytes:
        """A body that was not whole when somebody first looked."""
        try:
            return await exchange.body(most, account.add)
        except TooLarge as problem:
            raise too_large(most) from problem
        except Overloaded as problem:
            raise account.refusal() from problem
        except ClientDisconnected as problem:
            raise ApiError("invalid-request", "the connection closed before the body was whole") from problem

    async def scan(self, raw: bytes) -> None:
        """Refuse a JSON text with more values or levels than one may have."""
        try:
            await run_in_thread_if_large(len(raw), partial(self._edge.json.scan, raw))
        except TooMuch as problem:
            raise _too_much(problem) from problem


def too_large(most: int) -> ApiError:
    """The body is over its limit of bytes."""
    return ApiError("payload-too-large", f"the body is larger than {most} bytes", limit_bytes=most)


def check_parts(parts: object, limits: JSONLimits) -> None:
    """Refuse more parts than one message or artifact may have, before anything is made of them."""
    try:
        limits.check_parts(len(cast("list[object]", parts)) if isinstance(parts, list) else 0)
    except TooMuch as problem:
        raise _too_much(problem) from problem


def _too_much(problem: TooMuch) -> ApiError:
    return ApiError("payload-too-large", str(problem), limit=problem.limit, maximum=problem.maximum)

"""Faults to come: the next answers to some requests are errors, or none at all."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from molecule_agent.testing.http_messages import PlatformRequest, PlatformResponse
from molecule_wire import JSON, JSONObject, errors, ids


class ConnectionDropped(Exception):
    """The connection breaks before an answer."""


@dataclass
class _Fault:
    method: str
    path_glob: str
    times: int
    answer: PlatformResponse | None

    def hits(self, request: PlatformRequest) -> bool:
        return fnmatchcase(request.method, self.method.upper()) and fnmatchcase(request.path, self.path_glob)


class Faults:
    """The faults in the order in which they were asked for; the first that fits is used up first."""

    def __init__(self) -> None:
        self._waiting: list[_Fault] = []

    def add(self, method: str, path_glob: str, times: int, answer: PlatformResponse | None) -> None:
        """Let the next requests that fit fail; without an answer their connection breaks."""
        if times < 1:
            raise ValueError("times is at least 1")
        self._waiting.append(_Fault(method, path_glob, times, answer))

    def strike(self, request: PlatformRequest) -> PlatformResponse | None:
        """The fault that this request meets, or nothing. Raises `Dropped`."""
        fault = next((one for one in self._waiting if one.hits(request)), None)
        if fault is None:
            return None
        fault.times -= 1
        if fault.times == 0:
            self._waiting.remove(fault)
        if fault.answer is None:
            raise ConnectionDropped
        return fault.answer


def error_answer(status: int, retry_after: float | str | None, body: JSON | bytes) -> PlatformResponse:
    """The answer of a fault: what was given, or an error as the platform would say it."""
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after}"}
    if body is None:
        codes = errors.CODES_BY_STATUS.get(status, "internal").split()
        extras: JSONObject = {"retry_after": retry_after} if isinstance(retry_after, int) else {}
        body = errors.body(codes[0], "this failure was asked for by the test", ids.uuid7(), **extras)
    return PlatformResponse(status, body, headers)

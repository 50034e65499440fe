"""From a method and a path to a row of the route table."""

from collections.abc import Sequence
from dataclasses import dataclass

from molecule_platform.api.route import Route
from molecule_platform.domain.refusals import Refusal
from molecule_wire import ids


@dataclass(frozen=True)
class Match:
    """A route and the values of its path."""

    route: Route
    path: dict[str, str]


class Router:
    """Finds routes by their segments; a trailing slash makes no difference."""

    def __init__(self, table: Sequence[Route]) -> None:
        self._by_length: dict[int, list[tuple[list[str], Route]]] = {}
        self._plain: dict[tuple[str, str], Match] = {}
        for route in table:
            segments = _segments(route.path)
            self._by_length.setdefault(len(segments), []).append((segments, route))
            if "{" not in route.path:
                self._plain[route.method, route.path] = Match(route, {})

    def match(self, method: str, path: str) -> Match | None:
        """The route, None when no row has this path. Raises 405 when only the method is wrong."""
        plain = self._plain.get((method, path))
        return plain or self._search(method, path)

    def _search(self, method: str, path: str) -> Match | None:
        segments = _segments(path)
        found = [
            Match(route, values)
            for pattern, route in self._by_length.get(len(segments), ())
            if (values := _values(pattern, segments)) is not None
        ]
        if not found:
            return None
        for match in sorted(found, key=lambda match: len(match.path)):
            if match.route.method == method or (method == "HEAD" and match.route.is_page):
                return match
        allowed = ", ".join(sorted({match.route.method for match in found}))
        raise Refusal("method-not-allowed", f"{method} is not served here: use {allowed}", allow=allowed)


def checked_id(match: Match) -> str | None:
    """The workspace id of the path, in lower case. Raises 400 when it is no UUID."""
    given = match.path.get("id")
    if given is None:
        return None
    if not ids.is_uuid(given):
        raise Refusal("invalid-id", f"{given[:64]} is not a workspace id: it is a UUID")
    return given.lower()


def _segments(path: str) -> list[str]:
    return path.strip("/").split("/")


def _values(pattern: list[str], segments: list[str]) -> dict[str, str] | None:
    values: dict[str, str] = {}
    for expected, given in zip(pattern, segments, strict=True):
        if expected.startswith("{") and given:
            values[expected[1:-1]] = given
        elif expected != given:
            return None
    return values

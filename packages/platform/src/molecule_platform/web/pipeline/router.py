"""From a method and a path to a row of the route table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import unquote

from molecule_platform.domain.errors import ApiError
from molecule_platform.web.pipeline.route import Route
from molecule_wire import ids
from molecule_wire.a2a import tenants

MAX_REMEMBERED, MAX_REMEMBERED_LENGTH = 4096, 256


@dataclass(frozen=True)
class Match:
    """A route and the values of its path."""

    route: Route
    path: dict[str, str]

    @cached_property
    def workspace_id(self) -> str | None:
        """The workspace id of the path, in lower case. Raises 400 when it is no UUID."""
        given = self.path.get("id")
        if given is None:
            return None
        if not ids.is_uuid(given):
            raise ApiError("invalid-id", f"{given[:64]} is not a workspace id: it is a UUID")
        return given.lower()

    @cached_property
    def values(self) -> dict[str, str]:
        """The values of the path with the workspace id in lower case. Raises 400 when it is no UUID."""
        workspace_id = self.workspace_id
        return self.path if workspace_id is None else {**self.path, "id": workspace_id}


@dataclass
class _Node:
    """Where the first segments of a path lead, and which rows end here."""

    words: dict[str, "_Node"] = field(default_factory=dict[str, "_Node"])
    # A value, perhaps with a word behind it, as in `{task_id}:cancel`; the longest word first.
    values: list[tuple[str, str, "_Node"]] = field(default_factory=list[tuple[str, str, "_Node"]])
    routes: dict[str, Route] = field(default_factory=dict[str, Route])

    def step(self, segment: str) -> "_Node":
        """The node behind a segment of a row, made if it is new."""
        if not segment.startswith("{"):
            return self.words.setdefault(segment, _Node())
        name, _, ending = segment[1:].partition("}")
        for known in self.values:
            if known[:2] == (name, ending):
                return known[2]
        node = _Node()
        self.values.append((name, ending, node))
        self.values.sort(key=lambda value: -len(value[1]))
        return node


class Router:
    """Finds routes by their segments; a trailing slash makes no difference, and a word wins over a value."""

    def __init__(self, table: Sequence[Route]) -> None:
        self._root = _Node()
        # Agents come again and again on the same few paths.
        self._known: dict[tuple[str, str], Match] = {}
        for route in table:
            node = self._root
            for segment in _segments(route.path):
                node = node.step(segment)
            node.routes[route.method] = route

    def match(self, method: str, path: str) -> Match | None:
        """The route, None when no row has this path. Raises 405 when only the method is wrong."""
        known = self._known.get((method, path))
        if known is None:
            known = self._search(method, path)
            if known is not None and len(path) <= MAX_REMEMBERED_LENGTH:
                if len(self._known) >= MAX_REMEMBERED:
                    self._known.clear()
                self._known[method, path] = known
        return known

    def _search(self, method: str, path: str) -> Match | None:
        allowed: set[str] = set()
        for routes, values in _found(self._root, _segments(path), 0):
            route = routes.get(method)
            if route is None and method == "HEAD" and "GET" in routes and routes["GET"].is_page:
                route = routes["GET"]
            if route is not None:
                return Match(route, values)
            allowed |= routes.keys()
        if not allowed:
            return None
        listed = ", ".join(sorted(allowed))
        raise ApiError("method-not-allowed", f"{method} is not served here: use {listed}", allow=listed)


def _segments(path: str) -> list[str]:
    """The segments of a path, each decoded by itself: what is encoded in one is never a border of two."""
    segments = path.strip("/").split("/")
    return [unquote(segment) for segment in segments] if "%" in path else segments


def _may_be(name: str, value: str) -> bool:
    """Whether a segment is a value of that name. Only ids of tasks, which agents choose, hold slashes."""
    if name == "tenant":
        return tenants.may_be(value)
    return bool(value) and ("/" not in value or name == "task_id")


def _found(node: _Node, segments: list[str], place: int) -> Iterator[tuple[dict[str, Route], dict[str, str]]]:
    """Where a path leads: nodes with rows, and the values on the way; the most literal one first."""
    if place == len(segments):
        if node.routes:
            yield node.routes, {}
        return
    segment = segments[place]
    word = node.words.get(segment)
    if word is not None:
        yield from _found(word, segments, place + 1)
    for name, ending, behind in node.values:
        value = segment.removesuffix(ending)
        if (ending and value == segment) or not _may_be(name, value):
            continue
        for routes, values in _found(behind, segments, place + 1):
            yield routes, {name: value, **values}

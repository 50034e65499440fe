"""Every answer is one that the route table documents: its status, its code, its shape."""

from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import requests

from molecule_platform.domain.errors import ApiError
from molecule_platform.web.pipeline import openapi
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.route_table import TABLE
from molecule_platform.web.pipeline.router import Router
from molecule_wire import errors

_ROUTER = Router(TABLE)


def check(answer: requests.Response) -> None:
    """Fail when the table does not say that the route may answer like this."""
    assert answer.request.method is not None
    assert answer.request.url is not None
    path = unquote(urlsplit(answer.request.url).path)
    try:
        match = _ROUTER.match(answer.request.method, path)
    except ApiError:
        return
    if match is None or match.route.media != "application/json":
        return
    route = match.route
    named = f"{route.method} {route.path} -> {answer.status_code} {answer.text[:500]}"
    if answer.status_code in route.status:
        if route.reply is not None and answer.content:
            msgspec.convert(_body(answer), route.reply)
        return
    assert answer.status_code in _refusal_statuses(route), named
    body = _body(answer)
    if route.errors == "rest":
        assert body.get("code") in openapi.codes_of(route), named


def _refusal_statuses(route: Route) -> set[int]:
    return {errors.TABLE[code].status for code in openapi.codes_of(route)}


def _body(answer: requests.Response) -> Any:
    return answer.json() if answer.content else None

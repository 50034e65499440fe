"""The OpenAPI document, made from the route table and the shapes that validate requests."""

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from molecule_platform.domain.authorisation import ANY
from molecule_platform.web.pipeline import schemas as pipeline_schemas
from molecule_platform.web.pipeline.route import JSON, Route
from molecule_wire import errors

_PARAMETER = re.compile(r"\{(\w+)\}")
_REFERENCE = "#/components/schemas/{name}"

_EVERYWHERE = ("invalid-request", "rate-limited", "internal", "platform-unavailable")
_WITH_CREDENTIAL = (
    "unauthenticated",
    "invalid-token",
    "token-revoked",
    "token-expired",
    "forbidden",
    "scope-required",
    "identity-mismatch",
    "forged-identity",
    "not-found",
    "workspace-not-found",
)
_ON_A_WORKSPACE = ("invalid-id", "workspace-not-found", "workspace-removed")


def document(table: Sequence[Route], version: str) -> dict[str, Any]:
    """Every route of the table, with who may call it and everything it may answer."""
    schemas, components = msgspec.json.schema_components(_types(table), ref_template=_REFERENCE)
    known = dict(zip(map(str, _types(table)), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in table:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, known)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Molecule", "version": version, "description": "The control plane for agents."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "molecule_session"},
            },
        },
    }


def codes_of(route: Route) -> list[str]:
    """Every code of the error table that the route may answer."""
    codes = [*_EVERYWHERE, *route.refusals]
    if not route.is_public:
        codes += _WITH_CREDENTIAL
        codes += [] if route.method == "GET" else ["csrf"]
    if "{id}" in route.path:
        codes += _ON_A_WORKSPACE
    if any(who.kind == "peer" for who in route.who):
        codes.append("hierarchy-denied")
    if route.body is not None or route.limit == "a2a":
        codes += ["invalid-json", "payload-too-large"]
    if route.creates:
        codes += ["idempotency-conflict", "conflict"]
    return sorted(set(codes))


def _types(table: Iterable[Route]) -> list[Any]:
    used: dict[str, Any] = {
        str(kind): kind
        for kind in (pipeline_schemas.ErrorBody, pipeline_schemas.RpcEnvelope, pipeline_schemas.A2AErrorBody)
    }
    for route in table:
        for kind in (route.body, route.query, route.reply):
            if kind is not None:
                used[str(kind)] = kind
    return list(used.values())


def _operation(route: Route, known: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "tags": [route.name.split(".")[0]],
        "summary": route.summary,
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)],
        "responses": _responses(route, known),
        "security": [] if route.is_public else [{"token": []}, {"session": []}],
        "x-who": [str(who) for who in route.who],
    }
    if route.body is not None:
        content = {JSON: {"schema": known[str(route.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    elif route.limit == "a2a":
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": {"type": "object"}}}}
    return operation


def _operation_id(route: Route) -> str:
    words = re.findall(r"\w+", f"{route.method.lower()} {route.path}")
    return "_".join(words)


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    kinds: dict[str, dict[str, Any]] = {"id": {"type": "string", "format": "uuid"}}
    text: dict[str, Any] = {"type": "string", "minLength": 1}
    return [
        {"name": name, "in": "path", "required": True, "schema": kinds.get(name, text)}
        for name in _PARAMETER.findall(route.path)
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    _, components = msgspec.json.schema_components([route.query], ref_template=_REFERENCE)
    schema = components[route.query.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": field}
        for name, field in schema.get("properties", {}).items()
    ]


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    if not route.creates:
        return []
    schema = {"type": "string", "minLength": 1, "maxLength": 255}
    return [{"name": "Idempotency-Key", "in": "header", "required": False, "schema": schema}]


def _responses(route: Route, known: dict[str, Any]) -> dict[str, Any]:
    found = {str(status): _success(route, status, known) for status in route.status}
    for status, codes in _by_status(codes_of(route)).items():
        refusal = _refusal(route, status, codes, known)
        if str(status) in found:
            refusal["content"][JSON]["schema"] = {
                "anyOf": [refusal["content"][JSON]["schema"], found[str(status)]["content"][JSON]["schema"]]
            }
        found[str(status)] = refusal
    return found


def _by_status(codes: Iterable[str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for code in codes:
        found.setdefault(errors.TABLE[code].status, []).append(code)
    return dict(sorted(found.items()))


def _success(route: Route, status: int, known: dict[str, Any]) -> dict[str, Any]:
    success: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if route.reply is not None and status not in (204, 304):
        success["content"] = {route.media: {"schema": known[str(route.reply)]}}
    return success


def _refusal(route: Route, status: int, codes: list[str], known: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = known[
        str(pipeline_schemas.A2AErrorBody if route.errors == "a2a" else pipeline_schemas.RpcEnvelope)
    ]
    if route.errors == "rest":
        schema = {"allOf": [known[str(pipeline_schemas.ErrorBody)]], "properties": {"code": {"enum": codes}}}
    return {
        "description": f"{HTTPStatus(status).phrase}: {', '.join(codes)}",
        "content": {JSON: {"schema": schema}},
    }


def who_may(route: Route) -> str:
    """Who may call a route, in words for people."""
    if route.is_public:
        return "everyone"
    return "any credential" if ANY in route.who else ", ".join(str(who) for who in route.who)

"""What shapes are made of: bodies and queries of requests, bodies of replies. Each noun declares its own."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType


class Body(Struct, kw_only=True):
    """A request body; unknown fields are ignored."""


class NewBody(Body, forbid_unknown_fields=True):
    """A request body of a route that no old client knows; unknown fields are refused."""


class EmptyBody(NewBody):
    """No field at all."""


class Query(Struct, kw_only=True):
    """The parameters after the question mark. Numbers beyond their bounds are brought to the bound."""


class Schema(Struct, kw_only=True):
    """The body of a reply. A field that may be missing has the default UNSET."""


class ErrorBody(Schema):
    """Every refusal of a plain route: a sentence, a code of the table, and the extras of that code."""

    error: str
    code: str
    request_id: str


class A2AErrorBody(Schema):
    """Every refusal over the HTTP+JSON binding of A2A; the code of the table is in the details."""

    error: dict[str, Any]


class RpcEnvelope(Schema):
    """A JSON-RPC answer; a refusal repeats its facts beside the error."""

    jsonrpc: str
    id: str | int | float | None
    result: Any | UnsetType = UNSET
    error: dict[str, Any] | UnsetType = UNSET

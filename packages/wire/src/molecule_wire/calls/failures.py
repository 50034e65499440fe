"""Reading a refusal: the REST error body, and the JSON-RPC error object of the A2A paths."""

from molecule_wire import JSONObject
from molecule_wire.calls import retry, values

_NAMED = frozenset({"error", "code", "request_id"})
_ENVELOPE = frozenset({"jsonrpc", "id"})


def check(reply: values.Reply) -> None:
    """Raise `CallFailed` unless the reply was accepted, and is the platform's.

    A page of a proxy, or of another program at that address, is often a 200 too.
    """
    if not reply.ok:
        raise failure(reply)
    if not reply.readable:
        raise unreadable(reply, "not JSON")


def check_object(reply: values.Reply) -> JSONObject:
    """The body of an accepted reply, which is an object or nothing at all."""
    check(reply)
    if isinstance(reply.body, list | str | int | float):
        raise unreadable(reply, "no JSON object")
    return reply.object


def unreadable(reply: values.Reply, what: str) -> values.CallFailed:
    """The failure of a reply that says that all is well and cannot be the platform's."""
    sentence = f"the answer is {what}: is this the address of the platform?"
    return values.CallFailed(reply.status, message=sentence, request_id=_request_id(reply, {}))


def failure(reply: values.Reply) -> values.CallFailed:
    """Turn a refused reply into the failure it describes, however little of it can be read."""
    body = reply.object
    rpc_error = values.object_of(body.get("error"))
    metadata = _metadata(rpc_error)
    extras: JSONObject = {key: value for key, value in metadata.items() if key not in _NAMED}
    known = _NAMED | _ENVELOPE if "jsonrpc" in body else _NAMED
    extras |= {key: value for key, value in body.items() if key not in known}
    if rpc_error:
        extras["rpc_error"] = rpc_error
    return values.CallFailed(
        status=reply.status,
        code=values.text_of(body.get("code")) or values.text_of(metadata.get("code")),
        message=values.text_of(body.get("error")) or values.text_of(rpc_error.get("message")),
        request_id=_request_id(reply, metadata),
        retry_after=_retry_after(reply),
        extras=extras,
    )


def _metadata(rpc_error: JSONObject) -> JSONObject:
    merged: JSONObject = {}
    for detail in values.objects_of(rpc_error.get("data")):
        merged |= values.object_of(detail.get("metadata"))
    return merged


def _request_id(reply: values.Reply, metadata: JSONObject) -> str:
    named = values.text_of(reply.object.get("request_id")) or values.text_of(metadata.get("request_id"))
    return named or reply.header("X-Request-Id")


def _retry_after(reply: values.Reply) -> float | None:
    told = values.number_of(reply.object.get("retry_after"))
    return told if told is not None else retry.seconds_of(reply.header("Retry-After"))

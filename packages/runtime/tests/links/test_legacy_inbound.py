"""The body of the original push server."""

import json

import pytest

from molecule_runtime.links.legacy_inbound import LegacyMessage, answered, as_rpc
from molecule_wire.a2a.server.bindings import Response


def test_the_text_and_the_key_of_a_legacy_message_are_kept() -> None:
    body = {"task_id": "t", "sender": "me", "message": "hello", "idempotency_key": "k"}
    read = as_rpc(json.dumps(body).encode())
    assert isinstance(read, LegacyMessage)
    message = json.loads(read.rpc)["params"]["message"]
    assert (message["messageId"], message["parts"], read.key) == ("k", [{"text": "hello"}], "k")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"message": {"text": "x"}}'])
def test_another_body_is_refused(body: bytes) -> None:
    refused = as_rpc(body)
    assert isinstance(refused, Response)
    assert refused.status == 400
    assert json.loads(refused.body)["error"].startswith("bad request: ")


def test_the_answer_is_its_text() -> None:
    result = {"message": {"role": "ROLE_AGENT", "parts": [{"text": "echo: hello"}]}}
    reply = answered(Response(200, json.dumps({"result": result}).encode()))
    assert json.loads(reply.body) == {"status": "ok", "result": "echo: hello"}


def test_a_busy_agent_says_so_as_ever() -> None:
    busy = Response(503, b'{"error":"busy"}')
    assert answered(busy) is busy

"""The types of what a message may do without, at strict doors and at the lenient one."""

import json
from typing import Any

import pytest

from molecule_wire.a2a import envelopes, errors
from tests.rows import each_row

FILE = {"bytes": "aGk=", "name": "n", "mimeType": "text/plain"}


def parsed(params: dict[str, Any], *, old: bool = False, lenient: bool = False) -> envelopes.A2ARequest:
    method, version = ("message/send", None) if old else ("SendMessage", "1.0")
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return envelopes.parse_request(json.dumps(body).encode(), version=version, lenient=lenient)


def said(part: Any = None, **more: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "user", "parts": [part or {"text": "hi"}], **more}}


WRONG: list[tuple[dict[str, Any], str]] = [
    (said(extensions="https://x.example/a"), "message.extensions"),
    (said(extensions=["https://x.example/a", 5]), "message.extensions"),
    ({**said(), "configuration": {"acceptedOutputModes": "text/plain"}}, "configuration.acceptedOutputModes"),
    ({**said(), "configuration": {"acceptedOutputModes": [None]}}, "configuration.acceptedOutputModes"),
    (said({"text": "hi", "metadata": "s"}), "message.parts[0].metadata"),
    (said({"text": "hi", "filename": 5}), "message.parts[0].filename"),
    (said({"url": "u", "mediaType": ["a"]}), "message.parts[0].mediaType"),
    (said({"raw": "not base64!"}), "message.parts[0].raw"),
    (said({"raw": "aGkx="}), "message.parts[0].raw"),
    (said({"raw": "aGkxM"}), "message.parts[0].raw"),
    (said({"kind": "text", "data": {}}), "message.parts[0]"),
    (said({"type": "data", "text": "hi"}), "message.parts[0]"),
    (said({"kind": "file", "text": "hi"}), "message.parts[0]"),
    (said({"kind": "file", "file": FILE | {"name": 5}}), "message.parts[0].file.name"),
    (said({"kind": "file", "file": FILE | {"mimeType": 5}}), "message.parts[0].file.mimeType"),
    (said({"kind": "file", "file": FILE | {"bytes": "not base64!"}}), "message.parts[0].file.bytes"),
]


@each_row("old", [False, True])
@each_row(("params", "field"), WRONG)
def test_a_strict_door_names_what_has_the_wrong_type_and_the_lenient_one_lets_it_in(
    params: dict[str, Any], field: str, old: bool
) -> None:
    with pytest.raises(errors.A2AError) as refused:
        parsed(params, old=old)
    assert refused.value.code == -32602
    assert [violation.field for violation in refused.value.violations] == [field]
    assert parsed(params, old=old, lenient=True).message_id == "m"


@each_row(
    "params",
    [
        said(extensions=[]),
        said(extensions=None),
        said(extensions=["https://x.example/a"]),
        {**said(), "configuration": {"acceptedOutputModes": ["text/plain"]}},
        {**said(), "configuration": {"acceptedOutputModes": None}},
        said({"text": "hi", "metadata": {}, "filename": "n", "mediaType": "text/plain"}),
        said({"text": "hi", "metadata": None, "filename": None}),
        said({"raw": ""}),
        said({"raw": "aGkx"}),
        said({"raw": "aGk"}),
        said({"raw": "_-8="}),
        said({"raw": "+/8"}),
        said({"kind": "image", "text": "hi"}),
        said({"kind": "text", "text": "hi", "data": None}),
        said({"kind": "data", "data": None}),
        said({"kind": "file", "raw": "aGk="}),
        said({"kind": "file", "file": FILE}),
        said({"kind": "file", "file": {"uri": "https://x.example/a"}}),
    ],
)
def test_what_has_the_right_type_in_any_spelling_is_let_in(params: dict[str, Any]) -> None:
    for old in (False, True):
        assert parsed(params, old=old).message_id == "m"

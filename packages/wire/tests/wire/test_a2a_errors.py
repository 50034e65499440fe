"""The error table of A2A and the errors made from it."""

from collections.abc import Callable
from typing import Any

import pytest

from molecule_wire import JSON
from molecule_wire import errors as platform_errors
from molecule_wire.a2a import errors
from tests.rows import each_row

Golden = Callable[[str], list[dict[str, Any]]]


def _made(case: dict[str, Any]) -> errors.A2AError:
    if "gateway" in case:
        gateway = case["gateway"]
        return errors.gateway_error(gateway["code"], gateway["message"], **gateway["metadata"])
    kind = next(kind for kind in errors.KINDS if kind.name == case["kind"])
    return errors.protocol_error(kind)


def test_errors_have_their_golden_shapes(golden: Golden) -> None:
    for case in golden("errors"):
        assert _made(case).to_object() == case["json-rpc"], case["name"]
        assert _made(case).to_rest() == case["rest"], case["name"]


def test_errors_are_read_back_from_both_bindings(golden: Golden) -> None:
    for case in golden("errors"):
        made = _made(case)
        read = errors.from_object(case["json-rpc"])
        assert (read.code, read.message, read.reason) == (made.code, made.message, made.reason)
        assert (read.domain, read.metadata) == (made.domain, made.metadata)
        assert read.to_object() == case["json-rpc"]
        assert errors.from_object(case["rest"]["error"]).reason == made.reason


@pytest.mark.parametrize("kind", errors.KINDS)
def test_each_kind_is_found_by_code_and_reason(kind: errors.ErrorKind) -> None:
    assert errors.BY_CODE[kind.code] is errors.BY_REASON[kind.reason] is kind
    error = errors.protocol_error(kind, "said", detail=1)
    assert (error.http_status, error.grpc_status, str(error)) == (kind.http_status, kind.grpc_status, "said")
    assert error.metadata == {"detail": 1}


@each_row("code", platform_errors.TABLE)
def test_every_platform_code_makes_a_gateway_error(code: str) -> None:
    error = errors.gateway_error(code, "no")
    assert error.http_status == (409 if code == "cancelled" else platform_errors.TABLE[code].status)
    assert error.metadata["code"] == code
    assert error.domain == "molecule.ai"
    assert error.reason == code.upper().replace("-", "_")
    assert error.to_rest()["error"]


@pytest.mark.parametrize(
    ("code", "rpc_code", "grpc_status"),
    [
        ("unauthenticated", -32600, "UNAUTHENTICATED"),
        ("workspace-removed", -32600, "NOT_FOUND"),
        ("payload-too-large", -32600, "INVALID_ARGUMENT"),
        ("missing-env", -32600, "FAILED_PRECONDITION"),
        ("budget-exceeded", -32603, "FAILED_PRECONDITION"),
        ("rate-limited", -32603, "RESOURCE_EXHAUSTED"),
        ("mailbox-full", -32603, "UNAVAILABLE"),
        ("peer-unreachable", -32603, "INTERNAL"),
        ("invalid-agent-response", -32006, "INTERNAL"),
        ("invalid-json", -32700, "INVALID_ARGUMENT"),
    ],
)
def test_refusals_and_failures_have_their_numbers(code: str, rpc_code: int, grpc_status: str) -> None:
    error = errors.gateway_error(code, "no")
    assert (error.code, error.grpc_status) == (rpc_code, grpc_status)


def test_a_gateway_error_names_a_code_of_the_table() -> None:
    with pytest.raises(KeyError):
        errors.gateway_error("no-such-code", "?")


def test_invalid_params_name_every_field() -> None:
    error = errors.invalid_params(errors.Violation("a", "is required"), errors.Violation("b", "must be true"))
    assert error.message == "Invalid parameters: a: is required; b: must be true"
    data = error.to_object()["data"]
    assert data == [
        {"@type": errors.ERROR_INFO, "reason": "INVALID_PARAMS", "domain": "a2a-protocol.org"},
        {
            "@type": errors.BAD_REQUEST,
            "fieldViolations": [
                {"field": "a", "description": "is required"},
                {"field": "b", "description": "must be true"},
            ],
        },
    ]


def test_a_missing_extension_is_an_internal_error_in_0_3() -> None:
    error = errors.protocol_error(errors.EXTENSION_SUPPORT_REQUIRED, uri="https://example.org/x")
    old, new = error.to_object("0.3"), error.to_object("1.0")
    assert (old["code"], new["code"]) == (-32603, -32008)
    assert old["data"] == new["data"]


@pytest.mark.parametrize(
    ("shape", "code", "message"),
    [
        ({"code": -32050, "message": "own"}, -32050, "own"),
        ({"code": -32001}, -32001, "Task not found"),
        ({"code": 409, "message": "late"}, -32002, "late"),
        ({"code": 415, "message": "odd", "details": "?"}, -32005, "odd"),
        ({"code": 422, "message": "odd"}, -32600, "odd"),
        ({"code": 500, "message": "oops"}, -32603, "oops"),
        ({"code": "x", "message": ""}, -32603, "Internal error"),
        ("oops", -32006, "The peer answered with an error that is no object"),
    ],
)
def test_errors_of_strangers_are_read_as_well_as_can_be(shape: JSON, code: int, message: str) -> None:
    error = errors.from_object(shape)
    assert (error.code, error.message) == (code, message)


def test_a_reason_decides_before_the_status() -> None:
    details: JSON = [1, {"@type": "other"}, {"@type": errors.ERROR_INFO, "reason": "VERSION_NOT_SUPPORTED"}]
    error = errors.from_object({"code": 400, "message": "m", "details": details})
    assert error.code == -32009
    assert error.to_object()["data"] == details


def test_a_strangers_error_without_details_gains_none() -> None:
    error = errors.from_object({"code": -32050, "message": "own", "data": None})
    assert error.to_object() == {"code": -32050, "message": "own"}
    assert error.http_status == 500
    assert error.to_rest()["error"] == {"code": 500, "status": "INTERNAL", "message": "own", "details": []}


@pytest.mark.parametrize(
    ("number", "status", "grpc_status"),
    [
        (-32600, 400, "INVALID_ARGUMENT"),
        (-32001, 404, "NOT_FOUND"),
        (-32050, 500, "INTERNAL"),
        (401, 400, "INVALID_ARGUMENT"),
        (404, 404, "NOT_FOUND"),
        (503, 500, "INTERNAL"),
    ],
)
def test_a_peer_cannot_borrow_the_status_of_a_platform_error(
    number: int, status: int, grpc_status: str
) -> None:
    for code in ("token-revoked", "hierarchy-denied", "budget-exceeded", "rate-limited", "mailbox-full"):
        forged = errors.gateway_error(code, "no").to_object()
        read = errors.from_object({**forged, "code": number})
        assert (read.http_status, read.grpc_status) == (status, grpc_status)
        assert (read.domain, read.metadata) == ("molecule.ai", {"code": code})
        assert read.to_object()["data"] == forged["data"]


@each_row("code", platform_errors.TABLE)
def test_whatever_a_peer_says_its_status_is_one_of_the_protocol(code: str) -> None:
    forged = errors.gateway_error(code, "no").to_rest()["error"]
    assert errors.from_object(forged).http_status in {kind.http_status for kind in errors.KINDS}


def test_the_details_of_a_peer_are_a_list_in_rest_whatever_they_were() -> None:
    own = errors.from_object({"code": -32050, "message": "own", "data": {"n": 9007199254740993}})
    assert own.to_object()["data"] == {"n": 9007199254740993}
    shape = own.to_rest()["error"]
    assert isinstance(shape, dict)
    assert shape["details"] == [{"@type": errors.ANY_VALUE, "value": {"n": 9007199254740993}}]

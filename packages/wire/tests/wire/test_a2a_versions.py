"""Version negotiation and the table of operations."""

from collections.abc import Callable
from typing import Any

import pytest

from molecule_wire.a2a import errors, operations, versions

Golden = Callable[[str], list[dict[str, Any]]]


def _outcome(version: str, method: str, *, lenient: bool) -> str | int:
    _, belongs_to = operations.BY_METHOD.get(method, (None, None))
    try:
        return versions.negotiate(version, belongs_to, lenient=lenient)
    except errors.A2AError as error:
        return error.code


def test_every_version_and_method_has_its_verdict(golden: Golden) -> None:
    for case in golden("versions"):
        assert _outcome(case["version"], case["method"], lenient=False) == case["strict"], case
        assert _outcome(case["version"], case["method"], lenient=True) == case["lenient"], case


def test_the_refusal_says_which_header_to_send() -> None:
    with pytest.raises(errors.A2AError, match=r"A2A-Version: 1\.0"):
        versions.negotiate(None, "1.0", lenient=False)


@pytest.mark.parametrize(
    ("header", "query", "named"),
    [("1.0", "0.3", "1.0"), (None, "1.0", "1.0"), (" ", " 1.0 ", "1.0"), (None, None, "")],
)
def test_the_header_wins_over_the_query(header: str | None, query: str | None, named: str) -> None:
    assert versions.named(header, query) == named


def test_every_operation_has_the_names_of_the_protocol(golden: Golden) -> None:
    expected = [{**case, "verbs": tuple(case["verbs"])} for case in golden("operations")]
    named = ("name", "verbs", "method_1_0", "path_1_0", "method_0_3", "path_0_3")
    assert [{name: getattr(one, name) for name in named} for one in operations.OPERATIONS] == expected


def test_methods_lead_to_their_operation_and_back() -> None:
    for operation in operations.OPERATIONS:
        assert operations.BY_NAME[operation.name] is operation
        for dialect in versions.SUPPORTED:
            method = operation.method(dialect)
            assert method is None or operations.BY_METHOD[method] == (operation, dialect)


def test_rest_paths_stand_below_v1_in_0_3() -> None:
    assert operations.SEND.path("1.0") == "/message:send"
    assert operations.SEND.path("0.3") == "/v1/message:send"
    assert operations.LIST.path("0.3") is operations.LIST.method("0.3") is None
    assert operations.EXTENDED_CARD.path("0.3") == "/v1/card"
    assert operations.PUSH_GET.path("0.3") == "/v1/tasks/{id}/pushNotificationConfigs/{cid}"
    assert operations.SUBSCRIBE.verbs == ("GET", "POST")
    assert operations.CARD_PATHS[0] == "/.well-known/agent-card.json"

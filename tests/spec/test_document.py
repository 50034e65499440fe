"""The OpenAPI document is true: whatever a machine makes of it is answered as it says, and nothing breaks."""

from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import checks as plain_checks
from schemathesis.specs.openapi import checks as document_checks

from molecule_platform.web.pipeline.route_table import TABLE
from tests.spec.platforms import Platform, Start

_PLAIN, _DOCUMENT = cast("Any", plain_checks), cast("Any", document_checks)
CHECKS: list[Any] = [
    _PLAIN.not_a_server_error,
    _DOCUMENT.status_code_conformance,
    _DOCUMENT.content_type_conformance,
    _DOCUMENT.response_headers_conformance,
    _DOCUMENT.response_schema_conformance,
]
STREAMS = {route.path for route in TABLE if route.stream}
BOUNDED = settings(
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def operations(platform: Platform) -> list[Any]:
    """Every operation of the document as it is served; streams and long polls would only wait."""
    schema: Any = schemathesis.openapi.from_dict(platform.ok("GET", "/openapi.json"))
    found = (result.ok() for result in schema.get_all_operations())
    return [operation for operation in found if operation.path not in STREAMS]


@pytest.mark.slow  # a machine asks every operation
@pytest.mark.timeout(300)
@pytest.mark.parametrize("examples", [2, pytest.param(24, marks=pytest.mark.long)])
def test_every_operation_answers_as_the_document_says(configured: Start, examples: int) -> None:
    platform = configured(MOLECULE_A2A_HOLD_SECONDS=0)
    made = platform.create("Ada")
    other = platform.create("Bob", made["id"])["id"]
    shown = [platform.headers(token) for token in (None, made["connection"]["auth_token"], "")]

    for operation in operations(platform):

        @settings(BOUNDED, max_examples=examples)
        @given(
            case=operation.as_strategy(),
            known=st.sampled_from([None, made["id"], other]),
            headers=st.sampled_from(shown),
        )
        def ask(case: Any, known: str | None, headers: dict[str, str]) -> None:
            if known is not None and "id" in case.path_parameters:
                case.path_parameters["id"] = known
            case.query.pop("wait", None)
            if isinstance(case.body, dict):
                case.body.pop("wait", None)  # pyright: ignore[reportUnknownMemberType]
            answer = case.call(base_url=platform.url, headers=headers, timeout=30)
            case.validate_response(answer, checks=CHECKS, headers=headers)

        ask()

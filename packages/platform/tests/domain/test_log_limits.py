"""Limits of the activity log."""

from molecule_platform.domain.credentials import new_token
from molecule_platform.domain.log_limits import MAX_BODY_BYTES, loggable


def test_a_body_that_is_too_large_leaves_a_note() -> None:
    kept = loggable({"x": "y" * MAX_BODY_BYTES})
    assert kept == {"note": "the body is not kept: it has 65544 bytes, a log keeps 65536"}


def test_no_token_of_the_platform_is_logged() -> None:
    for token in (new_token() for _ in range(200)):
        assert token not in loggable({"said": f"my token is {token}, keep it"})["said"]

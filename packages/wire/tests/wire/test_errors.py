"""The table of the platform's error codes."""

import pytest

from molecule_wire import errors


def test_every_code_has_a_status_a_class_and_a_retry_rule() -> None:
    assert errors.TABLE["hierarchy-denied"] == (403, "AccessDeniedError", False)
    assert errors.TABLE["rate-limited"] == errors.ErrorCode(429, "RateLimitedError", True)
    assert errors.TABLE["cancelled"] == (499, "ApiError", False)
    assert errors.TABLE["caller-unverified"] == (401, "AuthenticationError", False)
    assert errors.TABLE["agent-busy"] == (503, "UnavailableError", True)


def test_each_code_stands_in_the_table_once() -> None:
    listed = [code for codes in errors.CODES_BY_STATUS.values() for code in codes.split()]
    assert len(listed) == len(set(listed)) == len(errors.TABLE)


def test_codes_with_rules_of_their_own_exist() -> None:
    assert set(errors.CLASS_BY_CODE) <= set(errors.TABLE)
    assert set(errors.TABLE) >= errors.RETRYABLE_CODES
    assert not set(errors.TABLE) & errors.OUTCOME_CODES


def test_only_what_may_pass_by_itself_is_retryable() -> None:
    statuses = {errors.TABLE[code].status for code in errors.RETRYABLE_CODES}
    assert statuses == {429, 502, 503}
    assert not errors.TABLE["unsafe-url"].retryable
    assert not errors.TABLE["deadline-exceeded"].retryable


@pytest.mark.parametrize(
    ("code", "class_name"),
    [
        ("token-expired", "TokenRejectedError"),
        ("enrolment-invalid", "EnrolmentError"),
        ("scope-required", "ScopeError"),
        ("forged-identity", "IdentityError"),
        ("plugin-not-allowed", "PluginNotAllowedError"),
        ("plugin-signature-required", "PluginRejectedError"),
        ("plugin-lock-mismatch", "PluginRejectedError"),
        ("unsafe-archive", "PluginRejectedError"),
        ("answer-invalid", "UnprocessableError"),
        ("cursor-lost", "CursorLostError"),
        ("interaction-closed", "GoneError"),
        ("method-not-allowed", "ApiError"),
        ("internal", "ServerError"),
        ("not-implemented", "ServerError"),
        ("mailbox-full", "MailboxFullError"),
    ],
)
def test_a_code_names_its_class(code: str, class_name: str) -> None:
    assert errors.TABLE[code].class_name == class_name
    assert errors.class_for(errors.TABLE[code].status, code) == class_name


@pytest.mark.parametrize(
    ("status", "code", "class_name"),
    [
        (404, None, "NotFoundError"),
        (409, "never-heard-of", "ConflictError"),
        (418, None, "ApiError"),
        (507, "never-heard-of", "ServerError"),
        (400, "plugin-of-tomorrow", "PluginRejectedError"),
        (500, "hierarchy-denied", "AccessDeniedError"),
    ],
)
def test_an_unknown_code_is_judged_by_its_status(status: int, code: str | None, class_name: str) -> None:
    assert errors.class_for(status, code) == class_name


def test_a_body_holds_sentence_code_request_id_and_extras() -> None:
    body = errors.body("scope-required", "needs org.send", "r1", required="org.send", error="other")
    assert body == {
        "error": "needs org.send",
        "code": "scope-required",
        "request_id": "r1",
        "required": "org.send",
    }


def test_a_body_with_an_unknown_code_is_refused() -> None:
    with pytest.raises(ValueError, match="no-such-code"):
        errors.body("no-such-code", "?", "r1")


def test_every_outcome_has_a_status_for_whoever_waits_for_it() -> None:
    assert {errors.status_of(code) for code in errors.OUTCOME_CODES} == {500, 502, 503, 504}
    assert errors.status_of("budget-exceeded") == 402


@pytest.mark.parametrize(
    "code", ["turn-timeout", "run-interrupted", "budget-exceeded", "skill-input-invalid"]
)
def test_an_agent_says_by_a_code_of_the_tables_what_became_of_its_work(code: str) -> None:
    assert errors.of_agent(code) == code


@pytest.mark.parametrize("code", [None, "", "made-up", "token-revoked", "unauthenticated"])
def test_an_agent_says_nothing_of_the_credential_of_its_sender(code: str | None) -> None:
    assert errors.of_agent(code) == "skill-failed"

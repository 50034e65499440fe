"""The tree of errors, and which of them an answer becomes."""

import pickle

import pytest
import requests

from molecule_agent import errors
from molecule_wire.calls import CallFailed
from molecule_wire.errors import TABLE
from tests.rows import each_row


@each_row("code", TABLE)
def test_each_code_of_the_shared_table_becomes_its_class(code: str) -> None:
    status, name, _ = TABLE[code]
    error = errors.from_failure(CallFailed(status, code, "sorry"), None)
    assert type(error) is getattr(errors, name)
    assert isinstance(error, requests.HTTPError)
    assert isinstance(error, errors.MoleculeError)
    assert (error.status, error.code) == (status, code)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequestError),
        (402, errors.BudgetExceededError),
        (404, errors.NotFoundError),
        (418, errors.ApiError),
        (500, errors.ServerError),
        (502, errors.UpstreamError),
        (599, errors.ServerError),
    ],
)
def test_an_unknown_code_is_judged_by_its_status(status: int, kind: type[errors.ApiError]) -> None:
    assert type(errors.from_failure(CallFailed(status, "brand-new"), None)) is kind


def test_an_error_reads_as_status_code_sentence_and_request() -> None:
    error = errors.from_failure(CallFailed(403, "hierarchy-denied", "they are strangers", "01J"), None)
    assert str(error) == "403 hierarchy-denied: they are strangers (request 01J)"
    advised = errors.with_advice(error, "ask for a grant")
    assert type(advised) is errors.AccessDeniedError
    assert "they are strangers; ask for a grant" in str(advised)


def test_a_lost_cursor_can_be_raised_without_a_response() -> None:
    error = errors.CursorLostError("the cursor is gone")
    assert str(error) == "the cursor is gone"
    assert error.response is None


@pytest.mark.parametrize(
    ("raised", "kinds"),
    [
        (requests.ConnectTimeout("x"), (errors.PlatformTimeoutError, errors.PlatformUnreachableError)),
        (requests.ReadTimeout("x"), (errors.PlatformTimeoutError, requests.Timeout)),
        (requests.ConnectionError("x"), (errors.PlatformUnreachableError, requests.ConnectionError)),
        (requests.exceptions.ChunkedEncodingError("x"), (errors.PlatformUnreachableError,)),
    ],
)
def test_what_requests_raises_without_an_answer_is_translated(
    raised: requests.RequestException, kinds: tuple[type[Exception], ...]
) -> None:
    with pytest.raises(kinds[0]) as caught, errors.translated():
        raise raised
    assert all(isinstance(caught.value, kind) for kind in kinds)
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize(
    "raised", [TimeoutError("x"), ConnectionError("x"), requests.exceptions.InvalidURL("x")]
)
def test_other_exceptions_pass_unchanged(raised: Exception) -> None:
    with pytest.raises(type(raised)) as caught, errors.translated():
        raise raised
    assert caught.value is raised


def test_plain_families() -> None:
    assert issubclass(errors.ConfigurationError, ValueError)
    assert issubclass(errors.TokenStoreError, OSError)
    assert issubclass(errors.SHA256MismatchError, (errors.PluginIntegrityError, ValueError))
    assert issubclass(errors.LeaseLostError, errors.ConflictError)
    assert errors.A2AError(-32001, "no such task").code == -32001
    assert isinstance(pickle.loads(pickle.dumps(errors.MoleculeError("x"))), errors.MoleculeError)

"""Models and resolvers: API keys are digests, models are frozen, nobody else says who calls."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from molecule_skill import auth
from molecule_skill.auth import APIKeyAuth, APIKeyAuthResolver, AuthError, JWTAuth, NoAuth, PlatformAuth
from packages.skills.tests.auth.tokens import NOW, digest


def keys(*more: dict[str, Any]) -> APIKeyAuthResolver:
    first = {"id": "ci", "sha256": digest("k-ci"), "scopes": ["run"]}
    return APIKeyAuthResolver([first, *more], clock=lambda: NOW)


def ask(resolver: APIKeyAuthResolver, token: str | None) -> APIKeyAuth:
    return resolver.resolve(token, headers={}, agent="a")


def test_the_models_have_the_fields_of_the_contract_and_no_others() -> None:
    assert NoAuth().model_dump() == {}
    assert APIKeyAuth(api_key_id="a").model_dump() == {"api_key_id": "a", "scopes": ()}
    assert JWTAuth(sub="a").model_dump() == {"sub": "a", "org_id": None, "email": None, "scopes": ()}
    assert PlatformAuth(principal="user:a").model_dump() == {
        "principal": "user:a",
        "org_id": None,
        "workspace_id": None,
        "scopes": (),
        "delegation_depth": 0,
    }


@pytest.mark.parametrize("model", [NoAuth(), APIKeyAuth(api_key_id="a"), JWTAuth(sub="a")])
def test_models_are_frozen_and_take_nothing_else(model: BaseModel) -> None:
    with pytest.raises(ValidationError):
        model.scopes = ("admin",)  # type: ignore[attr-defined]
    with pytest.raises(ValidationError):
        type(model)(**model.model_dump(), admin=True)


def test_a_key_names_its_id_and_scopes() -> None:
    found = ask(keys({"id": "ops", "sha256": digest("k-ops").upper()}), "k-ci")
    assert found == APIKeyAuth(api_key_id="ci", scopes=("run",))
    assert ask(keys({"id": "ops", "sha256": digest("k-ops").upper()}), "k-ops").api_key_id == "ops"


@pytest.mark.parametrize("token", [None, "", "k-c", "k-ci ", "\ud800", digest("k-ci")])
def test_anything_but_a_key_is_401(token: str | None) -> None:
    with pytest.raises(AuthError) as raised:
        ask(keys(), token)
    assert raised.value.status_code == 401


@pytest.mark.parametrize(
    "moment", [NOW, float(NOW), "2023-11-14T22:13:20Z", datetime.fromtimestamp(NOW, UTC)]
)
def test_a_key_ends_at_its_time(moment: object) -> None:
    with pytest.raises(AuthError, match="expired"):
        ask(keys({"id": "old", "sha256": digest("k-old"), "expires_at": moment}), "k-old")
    assert (
        ask(keys({"id": "new", "sha256": digest("k-new"), "expires_at": NOW + 1}), "k-new").api_key_id
        == "new"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        [{"id": "", "sha256": digest("k")}],
        [{"id": "a"}],
        [{"id": "a", "sha256": "k"}],
        [{"id": "a", "key": "k"}],
        [{"id": "a", "sha256": digest("k"), "scopes": "run"}],
        [{"id": "a", "sha256": digest("a")}],
        [{"id": "a", "sha256": digest("k")}, {"id": "a", "sha256": digest("l")}],
        [{"id": "a", "sha256": digest("k"), "expires_at": datetime(2030, 1, 1)}],  # noqa: DTZ001 - that is the fault
    ],
)
def test_keys_that_cannot_be_meant_are_refused_before_anybody_calls(wrong: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError):
        APIKeyAuthResolver(wrong)


def test_each_kind_of_caller_has_a_principal_of_its_own() -> None:
    assert auth.NoAuthResolver().principal_id(NoAuth()) == "local"
    assert keys().principal_id(APIKeyAuth(api_key_id="ci")) == "key:ci"
    by_token = auth.JWTAuthResolver("i", "a", {"keys": []})
    assert by_token.principal_id(JWTAuth(sub="ada")) == "user:ada"


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer abc", "abc"), ("bearer  abc", "abc"), ("Basic abc", None), ("Bearer", None), ("", None)],
)
def test_the_bearer_token_of_a_request_is_read(header: str, token: str | None) -> None:
    assert auth.bearer_token({"authorization": header}) == token

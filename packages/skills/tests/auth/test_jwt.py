"""JWTs are verified here, with the issuer's keys: only a token that holds in every part is accepted."""

import json
from pathlib import Path
from typing import Any

import pytest

from molecule_skill.auth import AuthError, JWTAuth, JWTAuthResolver
from molecule_skill.auth import jwt as jwt_module
from packages.skills.tests.auth import tokens
from packages.skills.tests.auth.tokens import ALL_KEYS, AUDIENCE, ISSUER, NOW, token


def resolver(jwks: Any = ALL_KEYS, **options: Any) -> JWTAuthResolver:
    return JWTAuthResolver(ISSUER, AUDIENCE, jwks, clock=lambda: NOW, **options)


async def resolve(token_text: str | None, jwks: Any = ALL_KEYS, **options: Any) -> JWTAuth:
    return await resolver(jwks, **options).resolve(token_text, headers={}, agent="a")


async def refusal(token_text: str | None, jwks: Any = ALL_KEYS, **options: Any) -> AuthError:
    with pytest.raises(AuthError) as raised:
        await resolve(token_text, jwks, **options)
    return raised.value


@pytest.mark.parametrize(("algorithm", "kid"), [("EdDSA", "ed"), ("ES256", "es"), ("RS256", "rs")])
async def test_a_token_of_each_algorithm_names_its_subject(algorithm: str, kid: str) -> None:
    found = await resolve(token(algorithm, kid, email="ada@x.org", org_id="o1", scope="read write"))
    assert found == JWTAuth(sub="ada", email="ada@x.org", org_id="o1", scopes=("read", "write"))


@pytest.mark.parametrize(("name", "value"), [("scope", "a b"), ("scopes", ["a", "b"]), ("scp", ["a", "b"])])
async def test_scopes_are_read_from_each_claim_that_providers_use(name: str, value: Any) -> None:
    assert (await resolve(token(**{name: value}))).scopes == ("a", "b")


@pytest.mark.parametrize(
    ("token_text", "says"),
    [
        (None, "needed"),
        ("", "needed"),
        ("abc", "no signed JWT"),
        ("a.b.c", "no signed JWT"),
        (token("none", "ed"), "algorithm"),
        (token("HS256", "rs"), "algorithm"),
        (token("HS256", None), "algorithm"),
        (token("EdDSA", "rs"), "not one for its algorithm"),
        (token("RS256", "es"), "not one for its algorithm"),
        (token("EdDSA", "es"), "not one for its algorithm"),
        (token(kid="other"), "not known"),
        (token(kid=None), "several"),
        (token(header={"crit": ["b64"]}), "crit"),
        (token(header={"kid": 7}), "kid"),
        (token(iss="https://evil.example"), "issuer"),
        (token(iss=None), "issuer"),
        (token(aud="other"), "audience"),
        (token(aud=None), "audience"),
        (token(aud=["other"]), "audience"),
        (token(exp=NOW - 30), "expired"),
        (token(exp=None), "'exp'"),
        (token(exp=True), "'exp'"),
        (token(exp="soon"), "'exp'"),
        (token(nbf=NOW + 31), "not good yet"),
        (token(sub=None), "'sub'"),
        (token(sub=" "), "'sub'"),
        (token() + "x", "signature"),
        ("x" * 70_000, "no signed JWT"),
    ],
)
async def test_a_token_that_does_not_hold_is_401_and_the_error_says_why(
    token_text: str | None, says: str
) -> None:
    problem = await refusal(token_text)
    assert problem.status_code == 401
    assert says in str(problem)
    assert token_text is None or len(token_text) < 10 or token_text not in str(problem)


async def test_a_changed_claim_breaks_the_signature() -> None:
    head, _, signature = token().split(".")
    forged = tokens.b64(json.dumps(tokens.claims(sub="eve")).encode())
    assert "signature" in str(await refusal(f"{head}.{forged}.{signature}"))


async def test_leeway_covers_clocks_that_differ() -> None:
    assert (await resolve(token(exp=NOW - 29))).sub == "ada"
    assert (await resolve(token(nbf=NOW + 30))).sub == "ada"
    assert "expired" in str(await refusal(token(exp=NOW), leeway=0))


async def test_the_one_key_of_an_issuer_needs_no_name() -> None:
    assert (await resolve(token(kid=None), {"keys": [tokens.ed_jwk()]})).sub == "ada"
    assert "not known" in str(await refusal(token(kid="older"), {"keys": [tokens.ed_jwk()]}))


@pytest.mark.parametrize("beside", [{"use": "enc"}, {"alg": "ES256"}, {"key_ops": ["encrypt"]}])
async def test_a_key_that_is_not_for_these_signatures_is_not_used(beside: dict[str, Any]) -> None:
    problem = await refusal(token(), {"keys": [{**tokens.ed_jwk(), **beside}]})
    assert "algorithm" in str(problem)


@pytest.mark.parametrize("algorithms", [("none",), ("HS256", "RS256"), ()])
def test_algorithms_without_a_public_key_cannot_be_configured(algorithms: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="algorithms"):
        resolver(algorithms=algorithms)


async def test_an_algorithm_that_is_not_configured_is_refused() -> None:
    assert "algorithm" in str(await refusal(token(), algorithms=("RS256",)))


async def test_keys_come_from_a_file(tmp_path: Path) -> None:
    kept = tmp_path / "jwks.json"
    kept.write_text(json.dumps(ALL_KEYS))
    assert (await resolve(token(), kept)).sub == "ada"
    assert (await refusal(token(), tmp_path / "absent.json")).status_code == 503


async def test_keys_of_a_url_are_fetched_once_and_again_for_a_new_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tokens.serving() as served:
        by_url = resolver(served.url)
        for _ in range(3):
            assert (await by_url.resolve(token(), headers={}, agent="a")).sub == "ada"
        assert served.fetches == 1
        served.document = ALL_KEYS
        for _ in range(3):  # within 30 s nobody asks again, whatever key a token names
            with pytest.raises(AuthError, match="not known"):
                await by_url.resolve(token("RS256", "rs"), headers={}, agent="a")
        assert served.fetches == 1
        monkeypatch.setattr(jwt_module, "REFETCH_SECONDS", 0.0)
        assert (await by_url.resolve(token("RS256", "rs"), headers={}, agent="a")).sub == "ada"
        assert served.fetches == 2


@pytest.mark.parametrize("status", [500, 302])
async def test_without_keys_nobody_is_let_in(status: int) -> None:
    with tokens.serving() as served:
        served.status = status
        problem = await refusal(token(), served.url)
    assert problem.status_code == 503
    assert "cannot be verified now" in str(problem)


async def test_known_keys_serve_on_while_the_issuer_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    with tokens.serving() as served:
        by_url = resolver(served.url)
        await by_url.resolve(token(), headers={}, agent="a")
    monkeypatch.setattr(jwt_module, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(jwt_module, "REFETCH_SECONDS", 0.0)
    assert (await by_url.resolve(token(), headers={}, agent="a")).sub == "ada"
    monkeypatch.setattr(jwt_module, "STALE_SECONDS", 0.0)
    with pytest.raises(AuthError) as raised:
        await by_url.resolve(token(), headers={}, agent="a")
    assert raised.value.status_code == 503

"""The platform's public keys are for everyone, and stay the same across restarts, replicas and new seals."""

import time

import pytest

from molecule_platform.services.keys import key_rotation
from tests.spec.platforms import Platform, Start

PATIENCE_SECONDS = 30.0


def test_anyone_may_fetch_the_keys_and_keep_them_for_five_minutes(platform: Platform) -> None:
    answer = platform.call("GET", "/.well-known/jwks.json", "")
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "max-age=300")
    document = answer.json()
    assert document["issuer"] == platform.url
    kinds = [(key["kty"], key["crv"], key["alg"], key["use"]) for key in document["keys"]]
    assert kinds == [("OKP", "Ed25519", "EdDSA", "sig"), ("EC", "P-256", "ES256", "sig")]
    assert all(set("d") - set(key) for key in document["keys"])


def test_the_issuer_is_the_origin_that_the_operator_names(configured: Start) -> None:
    platform = configured(EXTERNAL_PLATFORM_URL="https://agents.example/molecule")
    document = platform.call("GET", "/.well-known/jwks.json", "").json()
    assert document["issuer"] == "https://agents.example"


def test_the_keys_stay_the_same_after_a_restart_and_under_a_new_seal(restarting: Start) -> None:
    def keys(platform: Platform) -> object:
        return platform.call("GET", "/.well-known/jwks.json", "").json()["keys"]

    first = restarting()
    before = keys(first)
    first.ok("POST", "/admin/secrets/rotate-key")
    assert keys(first) == before
    assert first.call("GET", "/ready", "").status_code == 200
    first.stop()
    again = restarting()
    assert keys(again) == before
    again.ok("POST", "/admin/secrets/rotate-key")
    assert again.call("GET", "/ready", "").status_code == 200


def test_keys_that_no_longer_open_are_replaced_by_a_rotation(
    restarting: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_rotation, "FRESH_SECONDS", 0.1)
    first = restarting(SECRETS_ENCRYPTION_KEY="a" * 32)
    workspace_id = first.create("shown", visibility="public", claimable=False)["id"]
    first.stop()
    again = restarting(SECRETS_ENCRYPTION_KEY="b" * 32)
    path = f"/agents/{workspace_id}/.well-known/agent-card.json"
    assert again.call("GET", "/ready", "").json()["checks"]["keys"] == "failed"
    assert again.call("GET", path, "").status_code == 503
    assert again.ok("POST", "/admin/keys/rotate")["status"] == "rotated"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not all(again.call("GET", asked, "").status_code == 200 for asked in ("/ready", path)):
        assert time.monotonic() < deadline, "the platform did not become well"
        time.sleep(0.05)

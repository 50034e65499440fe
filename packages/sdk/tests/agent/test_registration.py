"""Registration, and the ladder of proofs by which an agent gets back in."""

import contextlib
import logging
from typing import TYPE_CHECKING, Any

import pytest

from molecule_agent import RemoteAgentClient, errors

if TYPE_CHECKING:
    from .conftest import Answer, FastClock, MakeClient, ScriptedPlatform  # noqa: TID252 - types only, never imported

WORKSPACE = "3f1c2d4e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
REGISTER = ("POST", "/registry/register")
MINTED = {"status": "registered", "auth_token": "minted-token-0123456789", "recovery_secret": "recovery-1"}


def test_the_first_registration_claims_the_workspace_and_keeps_what_it_got(
    platform: "ScriptedPlatform", make_client: "MakeClient", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    platform.ok(*REGISTER, MINTED)
    client = make_client(agent_card={"name": "docs-bot"})
    assert client.register() == "minted-token-0123456789"
    seen = platform.seen[0]
    assert seen.json == {"id": WORKSPACE, "url": "remote://no-inbound", "agent_card": {"name": "docs-bot"}}
    assert "authorization" not in seen.headers
    assert client.token_file.read_text() == "minted-token-0123456789"
    assert (client.token_file.parent / ".recovery").read_text() == "recovery-1"
    assert "minted-t…" in caplog.text
    assert "minted-token" not in caplog.text


def test_a_restart_registers_with_the_cached_token_and_mints_nothing(
    platform: "ScriptedPlatform", client: RemoteAgentClient, make_client: "MakeClient"
) -> None:
    platform.ok(*REGISTER, {"status": "registered"})
    again = make_client(reported_url="https://agent.example.org/a2a/inbound")
    assert again.register() == "token-of-the-agent"
    assert platform.seen[0].headers["authorization"] == "Bearer token-of-the-agent"
    assert platform.seen[0].json["url"] == "https://agent.example.org/a2a/inbound"


def test_a_claimed_workspace_without_any_proof_gets_no_token_and_a_warning(
    platform: "ScriptedPlatform", make_client: "MakeClient", caplog: pytest.LogCaptureFixture
) -> None:
    platform.ok(*REGISTER, {"status": "registered", "applied": False})
    assert make_client().register() == ""
    assert "register returned no auth_token and no cached token exists" in caplog.text
    assert f"molecule workspace enrol {WORKSPACE}" in caplog.text
    assert len(platform.seen) == 1


def test_a_registration_that_changed_nothing_is_told_but_the_cached_token_stays(
    platform: "ScriptedPlatform", client: RemoteAgentClient, caplog: pytest.LogCaptureFixture
) -> None:
    platform.ok(*REGISTER, {"status": "registered", "applied": False})
    assert client.register() == "token-of-the-agent"
    assert "did not apply" in caplog.text


def proof_door(answer: "type[Answer]", **accepted: str) -> Any:
    """Register as the platform does it: only these proofs are taken, everything else is claimed already."""

    def register(seen: Any) -> "Answer":
        for name in ("recovery_secret", "enrolment_token"):
            if name in seen.json:
                assert "authorization" not in seen.headers
                right = accepted.get(name) == seen.json[name]
                return (
                    answer(200, MINTED)
                    if right
                    else answer(401, {"error": "no", "code": "enrolment-invalid"})
                )
        if "authorization" in seen.headers:
            return answer(401, {"error": "no", "code": "token-revoked"})
        return answer(200, {"status": "registered", "applied": False})

    return register


def test_a_lost_token_is_recovered_with_the_recovery_secret(
    platform: "ScriptedPlatform", client: RemoteAgentClient, make_client: "MakeClient", answer: "type[Answer]"
) -> None:
    client.token_file.unlink()
    client._store.save_recovery("recovery-0")
    platform.on(*REGISTER, proof_door(answer, recovery_secret="recovery-0"))
    again = make_client()
    assert again.register() == MINTED["auth_token"]
    assert again._store.load_recovery() == "recovery-1"
    assert again.token_file.read_text() == MINTED["auth_token"]


def test_a_refused_recovery_secret_is_discarded_and_the_enrolment_token_is_next(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]"
) -> None:
    client = make_client(enrolment_token="enrol-me")
    client.save_token("revoked")
    client._store.save_recovery("stale")
    platform.on(*REGISTER, proof_door(answer, enrolment_token="enrol-me"))
    assert client.register() == MINTED["auth_token"]
    assert [set(seen.json) - {"id", "url", "agent_card"} for seen in platform.seen] == [
        set(),
        {"recovery_secret"},
        {"enrolment_token"},
    ]


def test_when_every_proof_is_refused_the_error_says_what_to_do(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]"
) -> None:
    client = make_client(enrolment_token="used-up")
    client._store.save_recovery("stale")
    platform.on(*REGISTER, proof_door(answer))
    with pytest.raises(errors.EnrolmentError, match="molecule workspace enrol"):
        client.register()
    assert client._store.load_recovery() is None
    assert client.register() == ""


def test_a_rejected_token_without_proof_is_an_authentication_error(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    platform.on(*REGISTER, proof_door(answer))
    with pytest.raises(errors.TokenRejectedError, match="ask an administrator"):
        client.register()


def test_the_environment_may_hold_the_enrolment_token(
    platform: "ScriptedPlatform",
    make_client: "MakeClient",
    answer: "type[Answer]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOLECULE_ENROLMENT_TOKEN", "from-env")
    platform.on(*REGISTER, proof_door(answer, enrolment_token="from-env"))
    assert make_client().register() == MINTED["auth_token"]


@pytest.mark.parametrize(
    ("status", "code", "kind", "sentence"),
    [
        (404, "workspace-not-found", errors.NotFoundError, "must be created first"),
        (410, "workspace-removed", errors.WorkspaceRemovedError, "410"),
        (403, "identity-mismatch", errors.IdentityError, "403"),
        (503, "platform-unavailable", errors.UnavailableError, "503"),
    ],
)
def test_other_refusals_have_their_class(
    status: int,
    code: str,
    kind: type[Exception],
    sentence: str,
    platform: "ScriptedPlatform",
    client: RemoteAgentClient,
    answer: "type[Answer]",
) -> None:
    platform.on(*REGISTER, answer(status, {"error": "no", "code": code}))
    with pytest.raises(kind, match=sentence):
        client.register()


def test_proofs_are_sent_once_a_minute_and_less_often_the_longer_nothing_helps(
    platform: "ScriptedPlatform", make_client: "MakeClient", answer: "type[Answer]", clock: "FastClock"
) -> None:
    platform.on(*REGISTER, answer(503, {"error": "away", "code": "platform-unavailable"}))
    client = make_client(clock=clock, enrolment_token="enrol-me")
    attempts: list[float] = []
    began = clock.now
    for _ in range(400):
        before = len(platform.seen)
        with contextlib.suppress(errors.UnavailableError):
            client._reauthenticator.reauthenticate("rejected")
        if len(platform.seen) > before:
            attempts.append(clock.now - began)
        clock.now += 10
    assert attempts == [0, 60, 180, 420, 900, 1800, 2700, 3600]


def test_a_token_written_by_another_process_is_taken_before_any_proof(
    platform: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    client._store.save_token("from-elsewhere")
    assert client._reauthenticator.reauthenticate("token-of-the-agent") == "from-elsewhere"
    assert client.load_token() == "from-elsewhere"
    assert platform.seen == []


def test_a_proof_used_by_another_process_a_moment_ago_leads_to_its_token(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    client._store.save_recovery("shared")

    def other_was_faster(seen: Any) -> "Answer":
        client._store.save_token("its-token")
        client._store.save_recovery("its-secret")
        return answer(401, {"error": "no", "code": "enrolment-invalid"})

    platform.on(*REGISTER, other_was_faster)
    assert client._reauthenticator.reauthenticate("token-of-the-agent") == "its-token"
    assert client._store.load_recovery() == "its-secret"


def test_reenrolling_on_demand(
    platform: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    platform.on(*REGISTER, proof_door(answer, enrolment_token="fresh"))
    with pytest.raises(errors.AuthenticationError, match="ask an administrator"):
        client.reenrol()
    assert client.reenrol("fresh") == MINTED["auth_token"]
    assert client.load_token() == MINTED["auth_token"]

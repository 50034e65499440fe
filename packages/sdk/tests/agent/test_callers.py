"""Who calls an agent: only what the platform signed, for this agent, now, once, and for this message."""

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from molecule_agent import A2AServer, RemoteAgentClient, errors
from molecule_agent.a2a_server import callers
from molecule_agent.a2a_server.callers import Callers, KeysUnavailable, PlatformKeys
from molecule_agent.testing import FakeResponse
from molecule_wire import assertions
from molecule_wire.caller_keys import KEYS_PATH

AGENT = "3f1c2d4e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
PLATFORM = "http://platform.example"
NOW = 1_800_000_000.0


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Signatory:
    """A platform's key, what it signs, and the document that shows it."""

    def __init__(self, kid: str = "k1", issuer: str | None = PLATFORM) -> None:
        self.kid, self.issuer = kid, issuer
        self.private = Ed25519PrivateKey.generate()

    def jwk(self) -> dict[str, Any]:
        raw = self.private.public_key().public_bytes(
            serialization.Encoding.Raw, serialization.PublicFormat.Raw
        )
        return {"kty": "OKP", "crv": "Ed25519", "x": b64(raw), "kid": self.kid, "alg": "EdDSA", "use": "sig"}

    def document(self) -> dict[str, Any]:
        shape: dict[str, Any] = {"keys": [{"kty": "EC", "crv": "P-256", "kid": "card"}, self.jwk()]}
        return shape if self.issuer is None else {"issuer": self.issuer, **shape}

    def claims(self, now: float = NOW, **changes: Any) -> dict[str, Any]:
        return {
            "iss": PLATFORM,
            "sub": "workspace:peer-1",
            "aud": f"workspace:{AGENT}",
            "iat": int(now),
            "nbf": int(now),
            "exp": int(now) + 300,
            "jti": f"jti-{time.perf_counter_ns()}",
            "org": "org-1",
            "mid": "m1",
            "row": "row-1",
            "ctx": "c1",
            "delegation": {"id": "d1", "depth": 1},
            "name": "Peer",
        } | changes

    def token(self, header: dict[str, Any] | None = None, now: float = NOW, **changes: Any) -> str:
        claims = {name: value for name, value in self.claims(now, **changes).items() if value is not ...}
        shape = {"alg": "EdDSA", "kid": self.kid, "typ": "JWT"} | (header or {})
        signed = f"{b64(json.dumps(shape).encode())}.{b64(json.dumps(claims).encode())}"
        return f"{signed}.{b64(self.private.sign(signed.encode()))}"


@pytest.fixture(scope="module")
def platform() -> Signatory:
    return Signatory()


def checker(signatory: Signatory, now: float = NOW) -> Callers:
    return Callers(AGENT, PlatformKeys(lambda _url: signatory.document()), lambda: now)


def refused(check: Callers, token: str, **more: Any) -> str:
    with pytest.raises(errors.CallerAssertionError) as problem:
        check.caller(token, PLATFORM, **more)
    return str(problem.value)


BODY = json.dumps({"params": {"message": {"messageId": "m1"}}}).encode()


def test_a_good_assertion_says_who_calls(platform: Signatory) -> None:
    caller = checker(platform).caller(platform.token(), PLATFORM, body=BODY, row="row-1")
    assert caller == {
        "principal": "workspace:peer-1",
        "name": "Peer",
        "org": "org-1",
        "message_id": "m1",
        "row": "row-1",
        "context_id": "c1",
        "delegation": {"id": "d1", "depth": 1},
    }


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"iss": "https://evil.example"}, "another platform"),
        ({"iss": ...}, "another platform"),
        ({"aud": "workspace:another"}, "another workspace"),
        ({"aud": [f"workspace:{AGENT}"]}, "another workspace"),
        ({"exp": int(NOW) - 31, "iat": int(NOW) - 100, "nbf": int(NOW) - 100}, "expired"),
        ({"iat": int(NOW) + 31, "nbf": int(NOW) + 31, "exp": int(NOW) + 100}, "not good yet"),
        ({"exp": int(NOW) + 301}, "longer than 300"),
        ({"iat": int(NOW) - 10}, "longer than 300"),
        ({"exp": ...}, "when it is good"),
        ({"nbf": "now"}, "when it is good"),
        ({"iat": True}, "when it is good"),
        ({"jti": ...}, "no id"),
        ({"jti": ""}, "no id"),
        ({"sub": ...}, "who calls"),
        ({"mid": "m2"}, "another message"),
        ({"row": "row-2"}, "another message"),
    ],
)
def test_a_claim_that_does_not_fit_is_refused(changes: dict[str, Any], why: str, platform: Signatory) -> None:
    assert why in refused(checker(platform), platform.token(**changes), body=BODY, row="row-1")


@pytest.mark.parametrize("seconds", [-29, 29, 329])
def test_clocks_may_differ_by_half_a_minute(seconds: float, platform: Signatory) -> None:
    assert checker(platform, NOW + seconds).caller(platform.token(), PLATFORM)


@pytest.mark.parametrize(
    "header", [{"alg": "none"}, {"alg": "HS256"}, {"alg": "eddsa"}, {"kid": ""}, {"kid": 7}, {"crit": ["x"]}]
)
def test_another_algorithm_or_no_key_is_refused(header: dict[str, Any], platform: Signatory) -> None:
    assert refused(checker(platform), platform.token(header))


def test_a_forged_or_altered_assertion_is_refused(platform: Signatory) -> None:
    stranger, check = Signatory(), checker(platform)
    assert "signature" in refused(check, stranger.token())
    header, claims, signature = platform.token().split(".")
    other = b64(json.dumps(platform.claims(sub="user:admin")).encode())
    assert "signature" in refused(check, f"{header}.{other}.{signature}")
    assert "signature" in refused(check, f"{header}.{claims}.{b64(b'x' * 64)}")
    unsigned = b64(json.dumps({"alg": "none", "kid": "k1"}).encode())
    assert refused(check, f"{unsigned}.{claims}.")


def test_an_assertion_can_be_used_once(platform: Signatory) -> None:
    check, token = checker(platform), platform.token()
    assert check.caller(token, PLATFORM)
    assert "used before" in refused(check, token)
    assert check.caller(platform.token(), PLATFORM)


def test_one_that_was_refused_is_not_used_up(platform: Signatory) -> None:
    check, token = checker(platform), platform.token()
    assert refused(check, token, row="another")
    assert check.caller(token, PLATFORM, row="row-1")


def test_of_many_who_show_the_same_one_gets_in(platform: Signatory) -> None:
    check, token, outcomes = checker(platform), platform.token(), list[bool]()
    ready = threading.Barrier(8)

    def show() -> None:
        ready.wait(30)
        try:
            outcomes.append(bool(check.caller(token, PLATFORM)))
        except errors.CallerAssertionError:
            outcomes.append(False)

    threads = [threading.Thread(target=show) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(outcomes) == [False] * 7 + [True]


@given(st.text(max_size=200) | st.from_regex(r"[\w-]{0,40}\.[\w-]{0,40}\.[\w-]{0,40}", fullmatch=True))
def test_any_other_text_is_refused_and_breaks_nothing(text: str) -> None:
    with pytest.raises(assertions.AssertionRefused):
        assertions.parse(text)


def test_where_either_id_is_missing_they_are_not_compared(platform: Signatory) -> None:
    check = checker(platform)
    assert check.caller(platform.token(), PLATFORM, body=b"{}")
    assert check.caller(platform.token(mid=..., row=...), PLATFORM, body=BODY, row="row-1")


# The platform's keys, over threads; the policy itself is tested in molecule_wire


class Fetching:
    """A platform whose document can be away, or held back until the test lets it go, and a clock."""

    def __init__(self, *signatories: Signatory) -> None:
        self.documents: list[Any] = [one.document() for one in signatories]
        self.urls: list[str] = []
        self.away = False
        self.now = 0.0
        self.asked_for = threading.Event()
        self.let_go = threading.Event()
        self.let_go.set()
        self.keys = PlatformKeys(self.fetch, lambda: self.now)

    def fetch(self, url: str) -> Any:
        self.urls.append(url)
        self.asked_for.set()
        assert self.let_go.wait(30)
        if self.away:
            raise requests.ConnectionError
        return self.documents[0] if len(self.documents) == 1 else self.documents.pop(0)

    def has(self, kid: str) -> bool:
        return kid in self.keys.for_key(kid, PLATFORM).keys


def test_keys_are_fetched_once_for_five_minutes() -> None:
    fetching = Fetching(Signatory("k1"))
    assert all(fetching.has("k1") for _ in range(5))
    assert fetching.urls == [f"{PLATFORM}/.well-known/jwks.json"]
    fetching.now = 299
    assert fetching.has("k1")
    assert len(fetching.urls) == 1
    fetching.now = 300
    assert fetching.has("k1")
    assert len(fetching.urls) == 2


def test_an_unknown_key_is_asked_for_at_most_once_a_minute() -> None:
    fetching = Fetching(Signatory("old"), Signatory("old"), Signatory("new"))
    assert fetching.has("old")
    assert not any(fetching.has("new") for _ in range(5))
    assert len(fetching.urls) == 1
    fetching.now = 60
    assert not any(fetching.has("new") for _ in range(5))
    assert len(fetching.urls) == 2
    fetching.now = 120
    assert fetching.has("new")
    assert len(fetching.urls) == 3


def test_while_the_platform_is_away_its_keys_are_good_for_an_hour() -> None:
    fetching = Fetching(Signatory("k1"))
    assert fetching.has("k1")
    fetching.away = True
    fetching.now = 3599
    assert fetching.has("k1")
    with pytest.raises(KeysUnavailable):
        fetching.has("k2")
    fetching.now = 3600
    with pytest.raises(KeysUnavailable):
        fetching.has("k1")
    fetching.away = False
    fetching.now = 3606
    assert fetching.has("k1")


def test_a_platform_that_is_away_is_not_asked_at_each_call() -> None:
    fetching = Fetching(Signatory("k1"))
    fetching.away = True
    for _ in range(5):
        with pytest.raises(KeysUnavailable):
            fetching.has("k1")
    assert len(fetching.urls) == 1


def test_while_one_thread_fetches_those_whose_key_is_known_do_not_wait() -> None:
    fetching = Fetching(Signatory("k1"))
    assert fetching.has("k1")
    fetching.now = 300
    fetching.asked_for.clear()
    fetching.let_go.clear()
    slow = threading.Thread(target=lambda: fetching.has("k1"))
    slow.start()
    assert fetching.asked_for.wait(30)
    assert fetching.has("k1"), "in this thread, while the other one still fetches"
    assert slow.is_alive()
    fetching.let_go.set()
    slow.join(30)
    assert len(fetching.urls) == 2


def test_threads_without_a_key_wait_for_the_one_fetch_of_another() -> None:
    fetching, outcomes = Fetching(Signatory("k1")), list[bool]()
    fetching.let_go.clear()
    threads = [threading.Thread(target=lambda: outcomes.append(fetching.has("k1"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert fetching.asked_for.wait(30)
    assert outcomes == []
    fetching.let_go.set()
    for thread in threads:
        thread.join(30)
    assert outcomes == [True] * 4
    assert len(fetching.urls) == 1


def test_a_fetch_that_breaks_in_an_unforeseen_way_keeps_nobody_waiting() -> None:
    def fetch(_url: str) -> Any:
        raise MemoryError

    keys = PlatformKeys(fetch, lambda: 0.0)
    with pytest.raises(MemoryError):
        keys.for_key("k1", PLATFORM)
    with pytest.raises(KeysUnavailable):
        keys.for_key("k1", PLATFORM)


def test_another_platform_has_other_keys() -> None:
    urls: list[str] = []
    keys = PlatformKeys(lambda url: urls.append(url) or Signatory().document())
    keys.for_key("k1", PLATFORM)
    keys.for_key("k1", "http://other.example")
    assert len(urls) == 2


def test_a_document_that_is_none_says_nothing_about_an_assertion(platform: Signatory) -> None:
    check = Callers(AGENT, PlatformKeys(lambda _url: {"error": "a proxy's own words"}), lambda: NOW)
    with pytest.raises(KeysUnavailable):
        check.caller(platform.token(), PLATFORM)


# The server


@pytest.fixture
def jwks(platform: Signatory) -> Iterator[str]:
    """A platform that serves its keys over a socket."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(platform.document()).encode()
            self.send_response(200 if self.path == KEYS_PATH else 302)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Location", KEYS_PATH)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Keys)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join(30)


Serve = Callable[..., A2AServer]


def greet(_payload: dict[str, Any]) -> str:
    return "hi"


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.delenv("MOLECULE_PLATFORM_URL", raising=False)
    servers: list[A2AServer] = []

    def start(handler: Any, **options: Any) -> A2AServer:
        settings: dict[str, Any] = {"host": "127.0.0.1"} | options
        server = A2AServer(AGENT, "/a2a/inbound", handler, **settings)
        server.start_in_background()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


def post(server: A2AServer, **headers: str) -> requests.Response:
    message = {"role": "user", "messageId": "m1", "parts": [{"kind": "text", "text": "hi"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return requests.post(f"http://127.0.0.1:{server.port}/a2a", json=body, headers=named, timeout=30)


def test_the_handler_is_told_who_was_verified_and_nothing_else_names_the_caller(
    serve: Serve, jwks: str, platform: Signatory
) -> None:
    got: list[dict[str, Any]] = []
    server = serve(got.append, host="0.0.0.0", platform_url=f"{jwks}/")
    token = platform.token(now=time.time())
    answer = post(server, X_Molecule_Caller=token, X_Molecule_Message_Id="row-1", Via="1.1 proxy")
    assert answer.json()["result"]["status"]["state"] == "completed"
    assert got[0]["sender"] == "workspace:peer-1"
    assert got[0]["caller"]["principal"] == "workspace:peer-1"
    assert got[0]["caller"]["name"] == "Peer"
    assert got[0]["caller"]["delegation"] == {"id": "d1", "depth": 1}
    again = post(server, X_Molecule_Caller=token, X_Molecule_Message_Id="row-1")
    assert (again.status_code, again.json()["code"]) == (401, "caller-assertion-invalid")
    assert len(got) == 1


def test_without_a_valid_assertion_nothing_runs(serve: Serve, jwks: str, platform: Signatory) -> None:
    runs: list[Any] = []
    server = serve(runs.append, platform_url=jwks)
    missing = post(server)
    assert (missing.status_code, missing.json()["code"]) == (401, "caller-unverified")
    for token in ("x", Signatory().token(now=time.time()), platform.token(now=time.time() - 1000)):
        bad = post(server, X_Molecule_Caller=token)
        assert (bad.status_code, bad.json()["code"]) == (401, "caller-assertion-invalid")
        assert token not in bad.text or token == "x"
    assert runs == []
    assert requests.get(f"http://127.0.0.1:{server.port}/healthz", timeout=30).status_code == 200


def test_while_the_keys_cannot_be_fetched_the_platform_is_asked_to_come_again(
    serve: Serve, platform: Signatory
) -> None:
    server = serve(greet, platform_url="http://127.0.0.1:1")
    answer = post(server, X_Molecule_Caller=platform.token(now=time.time()))
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


def test_the_platform_is_found_in_the_order_of_the_contract(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    server = serve(greet)
    assert server._platform() == ""
    monkeypatch.setenv("MOLECULE_PLATFORM_URL", "http://environment.example/")
    assert server._platform() == "http://environment.example"
    with RemoteAgentClient(AGENT, "http://127.0.0.1:9/living", token_dir=tmp_path) as living:
        assert server._platform() == "http://127.0.0.1:9/living"
        server.bind(RemoteAgentClient("another", "http://127.0.0.1:9/own", token_dir=tmp_path))
        assert server._platform() == "http://127.0.0.1:9/own"
        server.platform_url = "http://given.example"
        assert server._platform() == "http://given.example"
    server.platform_url, server._client = None, None
    assert server._platform() == "http://environment.example"
    assert living.workspace_id == AGENT


@pytest.mark.parametrize(
    ("installed", "options", "problem"),
    [
        (False, {"verify_callers": True, "platform_url": PLATFORM}, r"molecule-ai-sdk\[crypto\]"),
        (True, {"host": "127.0.0.1", "verify_callers": True}, "platform_url"),
    ],
)
def test_a_server_that_could_verify_nobody_does_not_start(
    installed: bool, options: dict[str, Any], problem: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "can_verify", lambda: installed)
    with pytest.raises(errors.ConfigurationError, match=problem):
        serve(greet, **options)


@pytest.mark.parametrize(
    ("installed", "options"),
    [
        (False, {"platform_url": PLATFORM}),
        (False, {"platform_url": PLATFORM, "host": "0.0.0.0"}),
        (False, {}),
        (True, {}),
        (True, {"host": "0.0.0.0"}),
    ],
)
def test_where_assertions_cannot_be_checked_only_this_machine_is_served(
    installed: bool, options: dict[str, Any], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "can_verify", lambda: installed)
    server = serve(greet, **options)
    assert post(server).status_code == 200
    relayed = post(server, X_Forwarded_For="10.0.0.1")
    assert (relayed.status_code, relayed.json()["code"]) == (401, "caller-unverified")
    assert ("crypto" if "platform_url" in options else "platform_url") in relayed.json()["error"]


def test_a_dispatch_secret_is_asked_for_as_well(serve: Serve, jwks: str, platform: Signatory) -> None:
    server = serve(greet, platform_url=jwks, dispatch_secret="s3cret")
    token = platform.token(now=time.time())
    assert post(server, X_Molecule_Caller=token).status_code == 401
    assert post(server, Authorization="Bearer s3cret").status_code == 401
    good = post(server, X_Molecule_Caller=token, Authorization="Bearer s3cret")
    assert good.status_code == 200, "the assertion was not used up by the request without the secret"


def test_without_the_extra_the_dispatch_secret_proves_the_platform(
    serve: Serve, platform: Signatory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "can_verify", lambda: False)
    got: list[dict[str, Any]] = []
    server = serve(got.append, platform_url=PLATFORM, dispatch_secret="s3cret", host="0.0.0.0")
    for stranger in (post(server), post(server, Authorization="Bearer wrong")):
        assert (stranger.status_code, stranger.json()["code"]) == (401, "caller-unverified")
        assert "molecule-ai-sdk[crypto]" in stranger.json()["error"]
    secret = {"Authorization": "Bearer s3cret", "X_Forwarded_For": "10.0.0.1"}
    assert post(server, **secret).status_code == 200
    token = platform.token(now=time.time())
    assert post(server, X_Molecule_Caller=token, **secret).status_code == 200
    assert got[-1]["caller"]["principal"] == got[-1]["sender"] != ""
    again = post(server, X_Molecule_Caller=token, **secret)
    assert (again.status_code, again.json()["code"]) == (401, "caller-assertion-invalid")
    late = post(server, X_Molecule_Caller=platform.token(now=time.time() - 3600), **secret)
    assert (late.status_code, late.json()["code"]) == (401, "caller-assertion-invalid")


def test_a_server_of_a_client_has_a_secret_that_its_registration_tells(
    tmp_path: Path, platform: Signatory
) -> None:
    session = MagicMock()
    session.post.return_value = FakeResponse(200, json_body={"status": "registered", "auth_token": "t"})
    client = RemoteAgentClient(AGENT, PLATFORM, token_dir=tmp_path, session=session)
    with client.start_a2a_server(lambda message: "hi", host="127.0.0.1") as server:
        early = post(server, X_Molecule_Caller=platform.token(now=time.time()))
        assert (early.status_code, early.headers["Retry-After"]) == (503, "1")
        client.register()
        secret = session.post.call_args.kwargs["json"]["dispatch_secret"]
        assert len(secret) == 64
        assert post(server).status_code == 401


def test_a_redirect_of_the_keys_is_not_followed(jwks: str) -> None:
    with pytest.raises(requests.HTTPError):
        callers.fetch_document(f"{jwks}/elsewhere")

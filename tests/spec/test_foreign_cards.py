"""Cards that agents bring with signatures: checked against keys that a real server shows over https."""

import http.server
import json
import shutil
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
import requests
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.types import AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill
from a2a.utils import signing
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from molecule_agent import BadRequestError, RemoteAgentClient
from tests.spec.platforms import Engine, Platform, Start

NAME = "localhost"
BOTH: tuple[Engine, ...] = ("sqlite", "postgres")


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """What is kept is tried on both engines; who vouches for whom needs one."""
    return request.param


class KeyServer:
    """Shows documents over https, with a certificate for its name."""

    def __init__(self, certificate: Path) -> None:
        self.documents: dict[str, Any] = {}
        self.asked: list[str] = []
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"https://{NAME}:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler_of(keys: KeyServer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.asked.append(self.path)
            document = keys.documents.get(self.path)
            found: Any = document() if callable(document) else document
            body = json.dumps(found).encode()
            self.send_response(404 if document is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler


@pytest.fixture
def keys(
    tmp_path: Path, self_signed: Callable[[Path, str], Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[KeyServer]:
    """A key server that this process trusts, because it trusts its certificate."""
    certificate = self_signed(tmp_path, NAME)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = KeyServer(certificate)
    yield server
    server.close()


@pytest.fixture
def platform(patched: Start, keys: KeyServer) -> Platform:
    """A platform trusts the certificates that there are when it is opened."""
    return patched(MOLECULE_A2A_HOLD_SECONDS=1)


def shown(private: Any, alg: str, kid: str = "main") -> dict[str, Any]:
    """The public half as a JWK."""
    writers: dict[str, Any] = {"ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}
    return {**writers.get(alg, RSAAlgorithm).to_jwk(private.public_key(), as_dict=True), "kid": kid}


def card_at(url: str) -> AgentCard:
    """A card as agents of the official package have one."""
    interface = AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")
    old = AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="0.3")
    return AgentCard(
        name="Zoë",
        description="Signs",
        version="1",
        supported_interfaces=[interface, old],
        capabilities=AgentCapabilities(streaming=False, extensions=[AgentExtension(uri="u:1")]),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="s", name="S", description="Does", tags=["t"])],
    )


def signed(private: Any, alg: str, jku: str, url: str, kid: str = "main") -> dict[str, Any]:
    """The card as the official package signs and serves it, with members of 0.3 beside those of 1.0."""
    header: Any = {"kid": kid, "alg": alg, "jku": jku, "typ": "JOSE"}
    sign = signing.create_agent_card_signer(private, header)
    return agent_card_to_dict(sign(card_at(url)))


def brought(platform: Platform, card: dict[str, Any]) -> RemoteAgentClient:
    """An agent that has registered with the card."""
    client = platform.client(platform.create("signer")["id"], agent_card=card)
    client.register()
    return client


def state(platform: Platform, client: RemoteAgentClient) -> str:
    return platform.ok("GET", f"/workspaces/{client.workspace_id}")["card_signature"]


def made(alg: str) -> Any:
    if alg == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    return ed25519.Ed25519PrivateKey.generate() if alg == "EdDSA" else rsa.generate_private_key(65537, 2048)


@pytest.mark.parametrize(
    ("engine", "alg"),
    [
        ("sqlite", "ES256"),
        ("sqlite", "RS256"),
        ("sqlite", "PS256"),
        ("sqlite", "EdDSA"),
        ("postgres", "ES256"),
    ],
)
def test_a_card_signed_by_the_official_package_is_verified(
    platform: Platform, keys: KeyServer, alg: str
) -> None:
    private = made(alg)
    keys.documents["/jwks.json"] = {"keys": [shown(private, alg)]}
    card = signed(private, alg, f"{keys.url}/jwks.json", f"{keys.url}/rpc")
    client = brought(platform, card)
    assert state(platform, client) == "verified"
    body = {"workspace_id": client.workspace_id, "agent_card": {**card, "name": "Eve"}}
    refused = platform.call("POST", "/registry/update-card", client.load_token(), json=body)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid-request")
    assert refused.json()["field"] == "agent_card"
    kept = platform.ok("GET", f"/workspaces/{client.workspace_id}")
    assert (kept["agent_card"], kept["card_signature"]) == (card, "verified")
    body["agent_card"] = card
    again = platform.ok("POST", "/registry/update-card", client.load_token(), json=body)
    assert again == {"status": "updated", "card_signature": "verified"}


def test_a_bad_signature_keeps_an_agent_out_and_says_so(platform: Platform, keys: KeyServer) -> None:
    private = made("ES256")
    keys.documents["/jwks.json"] = {"keys": [shown(made("ES256"), "ES256")]}
    card = signed(private, "ES256", f"{keys.url}/jwks.json", f"{keys.url}/rpc")
    client = platform.client(platform.create("signer")["id"], agent_card=card)
    with pytest.raises(BadRequestError, match="does not fit the card"):
        client.register()
    row = platform.ok("GET", f"/workspaces/{client.workspace_id}")
    assert (row["status"], row["agent_card"]) == ("awaiting_agent", None)


@pytest.mark.parametrize("engine", BOTH)
def test_a_key_server_that_is_gone_keeps_nobody_out_and_vouches_for_nobody(
    platform: Platform, keys: KeyServer
) -> None:
    private = made("EdDSA")
    card = signed(private, "EdDSA", f"{keys.url}/jwks.json", f"{keys.url}/rpc")
    keys.close()
    client = brought(platform, card)
    row = platform.ok("GET", f"/workspaces/{client.workspace_id}")
    assert (row["status"], row["card_signature"]) == ("online", "unverified")


@pytest.mark.parametrize("engine", BOTH)
def test_nobody_waits_for_a_slow_key_server_but_the_agent_that_names_it(
    platform: Platform, keys: KeyServer
) -> None:
    private, asked, free = made("EdDSA"), threading.Event(), threading.Event()

    def slow() -> Any:
        asked.set()
        assert free.wait(30)
        return {"keys": [shown(private, "EdDSA")]}

    keys.documents["/jwks.json"] = slow
    card = signed(private, "EdDSA", f"{keys.url}/jwks.json", f"{keys.url}/rpc")
    client = platform.client(platform.create("signer")["id"], agent_card=card)
    registering = threading.Thread(target=client.register)
    registering.start()
    assert asked.wait(30)
    platform.join("another")
    free.set()
    registering.join(30)
    assert state(platform, client) == "verified"


def test_a_server_with_a_certificate_that_nobody_trusts_vouches_for_nobody(
    platform: Platform, keys: KeyServer, tmp_path: Path, self_signed: Callable[[Path, str], Path]
) -> None:
    (tmp_path / "other").mkdir()
    impostor = KeyServer(self_signed(tmp_path / "other", NAME))
    private = made("EdDSA")
    impostor.documents["/jwks.json"] = {"keys": [shown(private, "EdDSA")]}
    card = signed(private, "EdDSA", f"{impostor.url}/jwks.json", f"{impostor.url}/rpc")
    assert state(platform, brought(platform, card)) == "unverified"
    assert impostor.asked == []
    impostor.close()


def test_keys_elsewhere_vouch_only_if_the_operator_trusts_their_host(
    configured: Start, keys: KeyServer
) -> None:
    private = made("ES256")
    keys.documents["/jwks.json"] = {"keys": [shown(private, "ES256")]}
    card = signed(private, "ES256", f"{keys.url}/jwks.json", "https://agent.example/rpc")
    distrusting = configured()
    assert state(distrusting, brought(distrusting, card)) == "unverified"
    assert keys.asked == []
    distrusting.stop()
    trusting = configured(MOLECULE_CARD_JKU_HOSTS=keys.url.removeprefix("https://"))
    assert state(trusting, brought(trusting, card)) == "verified"


def test_keys_at_a_private_address_are_asked_for_only_if_the_operator_allows_it(
    configured: Start, keys: KeyServer
) -> None:
    platform = configured(MOLECULE_ALLOW_PRIVATE_URLS="none")
    private = made("ES256")
    card = signed(private, "ES256", f"{keys.url}/jwks.json", f"{keys.url}/rpc")
    assert state(platform, brought(platform, card)) == "unverified"
    assert keys.asked == []


def test_a_card_without_signatures_is_unsigned_and_its_agent_is_told_nothing_new(platform: Platform) -> None:
    workspace_id = platform.create("plain")["id"]
    body = {"id": workspace_id, "agent_card": {"name": "plain"}}
    answer = platform.ok("POST", "/registry/register", "", json=body)
    assert set(answer) == {"status", "workspace_id", "delivery_mode", "auth_token", "recovery_secret"}
    assert platform.ok("GET", f"/workspaces/{workspace_id}")["card_signature"] == "unsigned"


@pytest.mark.parametrize("version", ["", "1.0", "0.3"])
def test_cards_of_one_platform_are_verified_by_another(
    configured: Start, keys: KeyServer, tmp_path: Path, empty_database: Path, version: str
) -> None:
    ours = configured(EXTERNAL_PLATFORM_URL=keys.url)
    keys.documents["/.well-known/jwks.json"] = lambda: ours.ok("GET", "/.well-known/jwks.json", "")
    speaker = ours.join("speaker", visibility="public")
    well_known = f"{ours.url}/agents/{speaker.workspace_id}/.well-known/agent-card.json"
    card = requests.get(well_known, headers={"A2A-Version": version} if version else {}, timeout=30).json()
    assert len(card["signatures"]) == (1 if version else 2)
    (tmp_path / "theirs").mkdir(mode=0o700)
    shutil.copy(empty_database, tmp_path / "theirs" / "molecule.db")
    alone: dict[str, Any] = {"DATABASE_URL": None, "NATS_URL": None, "ADMIN_TOKEN": ours.admin_token}
    theirs = configured(MOLECULE_DATA_DIR=tmp_path / "theirs", **alone)
    client = brought(theirs, card)
    assert state(theirs, client) == "verified"
    header = jwt.get_unverified_header(f"{card['signatures'][0]['protected']}.e30.e30")
    assert header["jku"] == f"{keys.url}/.well-known/jwks.json"
    body = {"workspace_id": client.workspace_id, "agent_card": {**card, "description": "Another"}}
    assert theirs.call("POST", "/registry/update-card", client.load_token(), json=body).status_code == 400

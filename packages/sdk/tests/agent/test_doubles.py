"""Test doubles of existing programs: sessions and responses that have hardly anything."""

import io
import tarfile
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import pytest
import requests

from molecule_agent import A2AServer, InboundMessage, PollDelivery, RemoteAgentClient, errors
from molecule_agent import client as client_module
from molecule_agent import inbound as inbound_module
from molecule_agent.testing import FakeResponse, make_tarball


class Bare:
    """A response with only what the contract names."""

    def __init__(self, status_code: Any, body: Any = None) -> None:
        self.status_code = status_code
        self._body = body

    def json(self) -> Any:
        return self._body

    def raise_for_status(self) -> None:
        if isinstance(self.status_code, int) and self.status_code >= 400:
            raise requests.HTTPError(f"{self.status_code} Error")


@pytest.fixture
def session() -> MagicMock:
    return MagicMock()


@pytest.fixture
def client(session: MagicMock, tmp_path: Path) -> RemoteAgentClient:
    made = RemoteAgentClient("w1", "https://molecule.example.org", token_dir=tmp_path, session=session)
    made._token = "token"
    return made


def test_gets_and_posts_have_the_original_shape(client: RemoteAgentClient, session: MagicMock) -> None:
    session.get.return_value = Bare(200, {"K": "v"})
    session.post.return_value = Bare(200, {})
    assert client.pull_secrets() == {"K": "v"}
    headers = {"Authorization": "Bearer token", "Origin": "https://molecule.example.org"}
    session.get.assert_called_once_with(
        "https://molecule.example.org/workspaces/w1/secrets/values", headers=headers, timeout=10.0
    )
    client.heartbeat()
    (url,), options = session.post.call_args
    assert url == "https://molecule.example.org/registry/heartbeat"
    assert set(options) == {"json", "headers", "timeout"}
    session.get.return_value = Bare(200, [])
    client.fetch_inbound(since_id="1")
    (url,), options = session.get.call_args
    assert set(options) == {"headers", "params", "timeout"}
    assert options["params"] == {"type": "a2a_receive", "limit": "100", "since_id": "1"}
    assert options["timeout"] == 15.0


def test_a_status_that_is_a_mock_is_neither_ordered_nor_compared(
    client: RemoteAgentClient, session: MagicMock
) -> None:
    session.get.return_value = MagicMock(json=lambda: {"status": "online", "paused": False})
    assert client.poll_state().status == "online"
    session.post.return_value = MagicMock()
    client.heartbeat()
    assert client.register() == "token"


def test_an_http_error_raised_by_a_double_is_wrapped(client: RemoteAgentClient, session: MagicMock) -> None:
    session.get.return_value = Bare(403, {"error": "no", "code": "hierarchy-denied"})
    with pytest.raises(requests.HTTPError) as caught:
        client.get_peers()
    assert isinstance(caught.value, errors.AccessDeniedError)
    assert caught.value.response is session.get.return_value
    assert isinstance(caught.value.__cause__, requests.HTTPError)
    session.get.return_value = Bare(500)
    with pytest.raises(errors.ServerError, match="500: 500 Error"):
        client.pull_secrets()


def test_builtin_exceptions_of_a_double_pass_through(client: RemoteAgentClient, session: MagicMock) -> None:
    session.get.side_effect = TimeoutError("mine")
    with pytest.raises(TimeoutError, match="mine"):
        client.poll_state()


def test_statuses_are_read_also_when_the_double_never_raises(
    client: RemoteAgentClient, session: MagicMock
) -> None:
    for status in (404, 410):
        session.get.return_value = MagicMock(status_code=status, json=lambda: {"deleted": True})
        assert client.poll_state().deleted
    session.get.return_value = MagicMock(status_code=404)
    assert client.discover_peer("p") is None
    session.get.return_value = MagicMock(status_code=410)
    with pytest.raises(errors.CursorLostError):
        client.fetch_inbound("1")


def test_sleep_and_chance_are_those_of_the_module(client: RemoteAgentClient, session: MagicMock) -> None:
    session.get.side_effect = [Bare(429), Bare(429), Bare(200, {})]
    with (
        patch("molecule_agent.client.time.sleep") as sleep,
        patch("molecule_agent.client.random.random", return_value=0.5),
    ):
        response = client._get_with_retry("https://molecule.example.org/x")
    assert response.status_code == 200
    assert [call.args for call in sleep.call_args_list] == [(1.0,), (2.0,)]
    session.get.assert_called_with("https://molecule.example.org/x", headers={}, timeout=10.0)


def test_the_whole_module_time_can_be_replaced(client: RemoteAgentClient, session: MagicMock) -> None:
    session.get.side_effect = [MagicMock(status_code=429, headers={"Retry-After": "4"}), Bare(200, {})]
    with patch.object(client_module, "time") as time:
        time.time.return_value = 0.0
        client._get_with_retry("https://molecule.example.org/x", max_retries=1)
    time.sleep.assert_called_once_with(4.0)


def test_private_names_of_the_original_are_there(client: RemoteAgentClient) -> None:
    assert client._auth_headers() == {"Authorization": "Bearer token"}
    assert client._tenant_headers() == {"Origin": "https://molecule.example.org"}
    assert client._request_headers(Origin="mine")["Origin"] == "mine"
    client._url_cache["p"] = ("http://x", 9e12)
    assert client.discover_peer("p") == "http://x"
    parsed = inbound_module._parse_activity_row({"id": "1", "source_id": "p"})
    assert parsed is not None
    assert parsed.source == "peer_agent"
    assert inbound_module._parse_activity_row({}) is None
    client._session = replaced = MagicMock()
    replaced.get.return_value = Bare(200, None)
    assert client.pull_secrets() == {}


def test_plugin_names_of_the_original_are_there(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "a.txt").write_text("hello\n")
    digest = "e869ce07cf8aad51109fad329f5f6a0c367d579b326f70442d260dadaa185641"
    original: Any = client_module
    assert original.verify_plugin_sha256(tmp_path / "demo", digest)
    assert original._walk_files(tmp_path / "demo") == ["a.txt"]
    assert original._sha256_file(tmp_path / "demo" / "a.txt") == (
        "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
    )
    with tarfile.open(fileobj=io.BytesIO(make_tarball({"x/y": b"1"}))) as archive:
        original._safe_extract_tar(archive, tmp_path / "out")
    assert (tmp_path / "out" / "x" / "y").read_bytes() == b"1"
    with (
        tarfile.open(fileobj=io.BytesIO(make_tarball({"../y": b"1"}))) as archive,
        pytest.raises(ValueError, match="refusing tar entry escaping dest"),
    ):
        original._safe_extract_tar(archive, tmp_path / "out")
    with pytest.raises(AttributeError):
        original._no_such_name  # noqa: B018 - reading it is the test


def test_private_parts_of_the_deliveries_and_the_server_can_be_read(client: RemoteAgentClient) -> None:
    delivery = inbound_module.PollDelivery(client)
    delivery._cursor = "row-7"
    assert delivery.cursor == "row-7"
    with A2AServer("w1", "http://127.0.0.1/a2a/inbound", lambda task: task, host="127.0.0.1") as server:
        server.start_in_background()
        assert server._server is not None
        assert server._server.server_address == ("127.0.0.1", server.port)


# Names that programs of the first generation patch and override


def test_a_key_and_a_session_are_patched_where_they_were(tmp_path: Path) -> None:
    with patch("molecule_agent.client.requests.Session") as made:
        client = RemoteAgentClient("w", "https://platform.test", token_dir=tmp_path)
        assert client._session is made.return_value
        made.return_value.post.return_value = FakeResponse(200, json_body={"delegation_id": "d"})
        with patch("molecule_agent.client.make_idempotency_key", return_value="patched"):
            client.delegate("a task", "peer-1")
    assert made.return_value.post.call_args.kwargs["json"]["idempotency_key"] == "patched"


@pytest.mark.parametrize("takes_it", [True, False])
def test_a_cursor_may_be_kept_elsewhere(takes_it: bool) -> None:
    kept: list[str | None] = []

    class Elsewhere(PollDelivery):
        def _load_cursor(self) -> str | None:
            return "row-0"

    class Given(Elsewhere):
        def _save_cursor(self, cursor: str | None) -> None:
            kept.append(cursor)

    class Looking(Elsewhere):
        def _save_cursor(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            kept.append(self._cursor)

    client = MagicMock(stopping=False)
    client.fetch_inbound.return_value = [InboundMessage("row-1", "canvas_user", "user", "hi")]
    delivery = (Given if takes_it else Looking)(client)
    assert delivery.cursor == "row-0"
    delivery.run_once(lambda message, client: None)
    assert client.fetch_inbound.call_args.kwargs["since_id"] == "row-0"
    assert kept == ["row-1"]


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("[A2A_RESULT_FROM_PEER]\nhello\n[/A2A_RESULT_FROM_PEER]", "hello"),
        ("[A2A_RESULT_FROM_PEER]hello[/A2A_RESULT_FROM_PEER]", "hello"),
        ("so: [A2A_RESULT_FROM_PEER]\n\nhello\n[/A2A_RESULT_FROM_PEER] end", "so: \nhello end"),
        ("[A2A_RESULT_FROM_PEER]\nhello", "[A2A_RESULT_FROM_PEER]\nhello"),
        ("hello", "hello"),
        ("", ""),
        (None, None),
    ],
)
def test_the_marks_around_a_peer_s_answer_are_taken_off(text: str | None, stripped: str | None) -> None:
    assert client_module.strip_a2a_boundary(text) == stripped


def test_each_module_has_a_logger_of_its_own_below_the_sdk_s() -> None:
    assert client_module.log.name == "molecule_agent.client"
    assert client_module.log.parent is not None

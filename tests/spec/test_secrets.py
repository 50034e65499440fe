"""Secrets: written by operators, read by their own workspace, found nowhere else."""

from tests.spec.house import Platform

CANARY = "canary-5f0c1d-value"


def test_an_agent_pulls_its_own_and_its_organisations_secrets(platform: Platform) -> None:
    client = platform.join("a")
    other = platform.join("b")
    platform.ok("POST", "/settings/secrets", json={"key": "SHARED", "value": "org"})
    platform.ok("PUT", "/settings/secrets", json={"key": "MODEL", "value": "org-model"})
    answer = platform.ok(
        "POST", f"/workspaces/{client.workspace_id}/secrets", json={"key": "MODEL", "value": "mine"}
    )
    assert answer == {"status": "saved", "key": "MODEL", "needs_restart": False}
    assert client.pull_secrets() == {"SHARED": "org", "MODEL": "mine"}
    assert other.pull_secrets() == {"SHARED": "org", "MODEL": "org-model"}


def test_lists_name_keys_and_never_values(platform: Platform) -> None:
    client = platform.join("a")
    platform.ok("POST", f"/workspaces/{client.workspace_id}/secrets", json={"key": "K", "value": CANARY})
    rows = platform.ok("GET", f"/workspaces/{client.workspace_id}/secrets")
    assert [(row["key"], row["has_value"], row["scope"]) for row in rows] == [("K", True, "workspace")]
    assert CANARY not in str(rows)


def test_values_are_for_the_workspace_itself_and_not_even_for_the_administrator(platform: Platform) -> None:
    client, peer = platform.join("a"), platform.join("b")
    path = f"/workspaces/{client.workspace_id}/secrets/values"
    assert platform.call("GET", path).status_code == 403
    assert platform.call("GET", path, token=peer.load_token()).status_code == 403
    assert platform.call("GET", path, token="").status_code == 401


def test_a_deleted_secret_is_gone(platform: Platform) -> None:
    client = platform.join("a")
    path = f"/workspaces/{client.workspace_id}/secrets"
    platform.ok("POST", path, json={"key": "K", "value": "v"})
    assert platform.ok("DELETE", f"{path}/K") == {"status": "deleted", "key": "K"}
    assert platform.call("DELETE", f"{path}/K").status_code == 404
    assert client.pull_secrets() == {}


def test_a_bad_key_is_refused_without_repeating_the_value(platform: Platform) -> None:
    answer = platform.call("POST", "/settings/secrets", json={"key": "1 BAD", "value": CANARY})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-request")
    assert CANARY not in answer.text


def test_a_planted_value_is_in_no_file_event_or_row(platform: Platform) -> None:
    client = platform.join("a", secrets={"K": CANARY})
    assert client.pull_secrets() == {"K": CANARY}
    for path in ("/events", f"/workspaces/{client.workspace_id}/activity", "/workspaces"):
        assert CANARY not in platform.call("GET", path).text
    for file in platform.data_dir.rglob("*"):
        if file.is_file():
            assert CANARY.encode() not in file.read_bytes(), file

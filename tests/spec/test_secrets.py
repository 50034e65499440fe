"""Secrets: written by operators, read by their own workspace, found nowhere else."""

from tests.spec.platforms import Platform, Start
from tests.spec.streams import stream

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


def test_the_two_addresses_of_an_organisations_secrets_are_one(platform: Platform) -> None:
    platform.ok("PUT", "/admin/secrets", json={"key": "K", "value": "v"})
    assert platform.ok("GET", "/settings/secrets") == platform.ok("GET", "/admin/secrets")
    assert platform.ok("DELETE", "/admin/secrets/K") == {"status": "deleted", "key": "K"}
    assert platform.ok("GET", "/settings/secrets") == []


def test_a_model_is_kept_as_a_secret_and_cleared_with_nothing(platform: Platform) -> None:
    client = platform.join("a")
    path = f"/workspaces/{client.workspace_id}/model"
    assert platform.ok("GET", path) == {"model": "", "source": "default"}
    assert platform.ok("PUT", path, json={"model": "sonnet"}) == {"status": "saved", "model": "sonnet"}
    own = platform.ok("GET", path, client.load_token())
    assert own == {"model": "sonnet", "source": "workspace_secrets"}
    assert client.pull_secrets() == {"MODEL_PROVIDER": "sonnet"}
    assert platform.ok("PUT", path, client.load_token(), json={"model": ""}) == {"status": "cleared"}
    assert platform.ok("PUT", path, json={"model": ""}) == {"status": "cleared"}
    assert platform.ok("GET", path) == {"model": "", "source": "default"}


def test_a_change_is_an_event_for_the_agent_and_for_the_organisation(platform: Platform) -> None:
    client = platform.join("a")
    platform.ok("PUT", f"/workspaces/{client.workspace_id}/secrets", json={"key": "MINE", "value": "v"})
    platform.ok("PUT", "/settings/secrets", json={"key": "OURS", "value": "v"})
    ours, mine = platform.ok("GET", "/events?type=SECRET_CHANGED")
    assert (mine["workspace_id"], mine["payload"]) == (
        client.workspace_id,
        {"key": "MINE", "scope": "workspace"},
    )
    assert (ours["workspace_id"], ours["payload"]) == ("", {"key": "OURS", "scope": "global"})


def test_an_agent_hears_of_what_it_should_pull_again_and_not_of_its_peers_keys(platform: Platform) -> None:
    client, peer = platform.join("a"), platform.join("b")
    with stream(platform, token=client.load_token()) as told:
        for path in (f"/workspaces/{peer.workspace_id}", f"/workspaces/{client.workspace_id}"):
            platform.ok("PUT", f"{path}/secrets", json={"key": "MINE", "value": "v"})
        platform.ok("PUT", "/settings/secrets", json={"key": "OURS", "value": "v"})
        heard = told.until("SECRET_CHANGED") + told.until("SECRET_CHANGED")
    changed = [one.data["payload"]["key"] for one in heard if one.event == "SECRET_CHANGED"]
    assert changed == ["MINE", "OURS"]


def test_a_new_key_changes_nothing_for_agents(restarting: Start) -> None:
    first = restarting()
    client = first.join("a", secrets={"K": CANARY})
    before = (first.data_dir / "secrets.key").read_text()
    done = first.ok("POST", "/admin/secrets/rotate-key")
    assert (done["status"], done["resealed"], done["failed_keys"]) == ("rotated", 1, [])
    assert (first.data_dir / "secrets.key").read_text().splitlines()[1] == before.strip()
    assert client.pull_secrets() == {"K": CANARY}
    first.stop()
    second = restarting()
    assert second.ok("GET", f"/workspaces/{client.workspace_id}/secrets/values", client.load_token()) == {
        "K": CANARY
    }
    assert second.call("POST", "/admin/secrets/rotate-key", client.load_token()).status_code == 403


def test_without_the_key_of_a_secret_the_house_is_not_ready_and_says_which_secret(restarting: Start) -> None:
    first = restarting()
    client = first.join("a", secrets={"K": CANARY})
    first.stop()
    (first.data_dir / "secrets.key").unlink()
    second = restarting()
    ready = second.call("GET", "/ready", token="")
    assert (ready.status_code, ready.json()["checks"]["keys"]) == (503, "failed")
    path = f"/workspaces/{client.workspace_id}/secrets/values"
    failed = second.call("GET", path, client.load_token())
    assert (failed.status_code, failed.json()["failed_keys"]) == (500, ["workspace:K"])
    refused = second.call("POST", "/admin/secrets/rotate-key")
    lost, *own = refused.json()["failed_keys"]
    assert lost == "workspace:K"
    assert [name.partition(":")[0] for name in own] == ["signing", "signing"]

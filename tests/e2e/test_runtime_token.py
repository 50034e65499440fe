"""A workspace whose token is revoked takes no turns and says so, until it is given another."""

from pathlib import Path
from typing import Any

import pytest
import requests

from molecule_platform.testing import servers
from scripts.live_platform import LivePlatform
from tests.e2e.platform_process import PlatformProcess
from tests.e2e.workspaces import SECONDS, Member, member, until

pytestmark = pytest.mark.timeout(120)


def revoke(echo: Member) -> None:
    """Take every token of a workspace back."""
    for token in echo.call("GET", f"/workspaces/{echo.id}/tokens")["tokens"]:
        path = f"{echo.platform.url}/workspaces/{echo.id}/tokens/{token['id']}"
        assert requests.delete(path, headers=echo.headers, timeout=SECONDS).status_code < 300


def direct(echo: Member, text: str) -> requests.Response:
    """Send to the process itself."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    body: Any = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    return requests.post(echo.url, json=body, headers={"A2A-Version": "1.0"}, timeout=SECONDS)


@pytest.mark.parametrize("link", ["push", "poll"])
def test_a_revoked_token_stops_the_turns_and_is_said(live: LivePlatform, tmp_path: Path, link: str) -> None:
    with member(live, tmp_path / link, MOLECULE_LINK=link) as echo:
        revoke(echo)
        # Work that begins is told to the platform, which answers that the token is not taken any more. A call
        # that was under way when it was revoked may have found that out before.
        assert direct(echo, "hello").status_code in (200, 503)
        echo.logged("the platform refuses the token of workspace")
        until(lambda: echo.readiness() == (503, "auth_lost"), lambda: str(echo.readiness()))
        refused = direct(echo, "hello")
        assert (refused.status_code, refused.json()["code"]) == (503, "agent-busy")
        assert requests.get(f"{echo.url}healthz", timeout=SECONDS).status_code == 200


@pytest.mark.long  # two heartbeats, 30 s apart
def test_a_workspace_without_a_token_goes_offline_and_comes_back_with_another(tmp_path: Path) -> None:
    settings = {"REMOTE_LIVENESS_STALE_AFTER": "40"}
    platform = PlatformProcess(servers.free_port(), tmp_path / "data", settings)
    platform.start()
    try:
        with member(platform, tmp_path / "echo") as echo:
            until(lambda: echo.row()["status"] == "online")
            revoke(echo)
            until(lambda: echo.row()["status"] == "offline", lambda: str(echo.row()), seconds=90)
            until(lambda: echo.readiness() == (503, "auth_lost"), lambda: str(echo.readiness()))
            minted = echo.call("POST", f"/workspaces/{echo.id}/tokens", json={})
            (echo.folder / ".auth_token").write_text(minted["auth_token"])
            until(lambda: echo.readiness() == (200, "ready"), lambda: str(echo.readiness()), seconds=60)
            until(lambda: echo.row()["status"] == "online")
    finally:
        platform.stop()

"""Replies posted as messages: what they settle, and that none is lost."""

from typing import Any

import pytest
import requests

from molecule_agent import RemoteAgentClient
from tests.spec.platforms import Platform, Start, message

MOST_OPEN = 3


def sent(platform: Platform, sender: RemoteAgentClient, target: RemoteAgentClient) -> str:
    """A message that nobody waits for."""
    token = sender.load_token()
    answer = platform.send(target.workspace_id, "two and two?", token, headers={"Prefer": "respond-async"})
    return answer.json()["message_id"]


def replied(
    platform: Platform,
    sender: RemoteAgentClient,
    asker: RemoteAgentClient,
    message_id: str | None = None,
    **headers: str,
) -> requests.Response:
    """The sender's words in the role of the one answering."""
    path = f"/workspaces/{asker.workspace_id}/a2a"
    body = message("four", message_id, role="agent")
    return platform.call("POST", path, sender.load_token(), json=body, headers=headers)


def replies_of(platform: Platform, agent: RemoteAgentClient) -> tuple[list[Any], list[Any]]:
    """Whose words an agent finds in its inbox and in its activity."""
    base, token = f"/workspaces/{agent.workspace_id}", agent.load_token()
    items = platform.ok("GET", f"{base}/inbox?kind=reply", token)["messages"]
    rows = platform.ok("GET", f"{base}/activity?type=a2a_receive", token)
    return [item["peer_id"] for item in items], [row["source_id"] for row in rows if row["kind"] == "reply"]


@pytest.fixture
def small(configured: Start) -> Platform:
    """A house whose mailboxes are soon full."""
    return configured(MOLECULE_A2A_HOLD_SECONDS=1, MAILBOX_MAX_OPEN=MOST_OPEN)


def test_a_reply_reaches_the_inbox_of_the_asker_whatever_else_is_in_it(small: Platform) -> None:
    ada, bob = small.join("Ada"), small.join("Bob")
    asked = sent(small, ada, bob)
    for _ in range(MOST_OPEN):
        small.send(ada.workspace_id, "more work", headers={"Prefer": "respond-async"})
    assert small.send(ada.workspace_id, "too much").json()["code"] == "mailbox-full"

    late = replied(small, bob, ada, **{"X-Molecule-In-Reply-To": asked})
    assert (late.status_code, late.json()["result"]) == (200, {"settled": True, "message_id": asked})
    assert replies_of(small, ada) == ([bob.workspace_id], [bob.workspace_id])

    unasked = replied(small, bob, ada)
    assert (unasked.status_code, unasked.json()["result"]["settled"]) == (200, False)
    assert replies_of(small, ada) == ([bob.workspace_id] * 2, [bob.workspace_id] * 2)


@pytest.mark.parametrize("settles", [True, False])
def test_a_reply_posted_again_is_told_to_be_a_repeat(platform: Platform, settles: bool) -> None:
    ada, bob = platform.join("Ada"), platform.join("Bob")
    named = {"X-Molecule-In-Reply-To": sent(platform, ada, bob)} if settles else {}
    first, again = (replied(platform, bob, ada, "r-1", **named) for _ in range(2))
    assert first.json()["result"] == again.json()["result"]
    assert first.json()["result"]["settled"] is settles
    assert [one.headers.get("Idempotency-Replayed") for one in (first, again)] == [None, "true"]

"""Idempotency keys at the door: an answer is shown again to the very credential that earned it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from molecule_platform.services.support import idempotency
from molecule_platform.services.workspaces.workspace_creation import WorkspaceCreator

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Visitor

KEY = {"idempotency-key": "once"}
EVERYTHING = {"name": "n", "scopes": ["workspace"]}
ADA = {"name": "Ada", "runtime": "external"}


async def test_a_lesser_token_of_the_same_workspace_is_not_shown_the_answer(visit: Visitor) -> None:
    ada, token = await visit.agent()
    path = f"/workspaces/{ada}/tokens"
    lesser = (await visit("POST", path, {"scopes": ["ws.manage"]}, token=token)).json["auth_token"]
    made = await visit("POST", path, EVERYTHING, token=token, headers=KEY)
    refused = await visit("POST", path, EVERYTHING, token=lesser, headers=KEY)
    assert (made.status, refused.status, refused.json["code"]) == (201, 403, "scope-required")
    again = await visit("POST", path, EVERYTHING, token=token, headers=KEY)
    assert again.json == made.json


async def test_whoever_acts_as_the_workspace_is_not_shown_the_answer(visit: Visitor) -> None:
    ada, token = await visit.agent()
    path = f"/workspaces/{ada}/tokens"
    await visit("POST", path, EVERYTHING, token=token, headers=KEY)
    body = {"name": "actor", "scopes": ["org.impersonate"]}
    actor = (await visit("POST", "/org/tokens", body)).json["auth_token"]
    refused = await visit("POST", path, EVERYTHING, token=actor, headers=KEY | {"x-workspace-id": ada})
    assert (refused.status, refused.json["code"]) == (403, "scope-required")


async def test_an_answer_given_to_oneself_is_not_shown_to_oneself_as_somebody_else(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    path, body = f"/workspaces/{ada}/tokens", {"name": "n", "scopes": ["ws.send"]}
    first = await visit("POST", path, body, headers=KEY)
    acting = await visit("POST", path, body, headers=KEY | {"x-workspace-id": ada})
    assert (first.status, acting.status) == (201, 201)
    assert first.json["id"] != acting.json["id"]


@pytest.mark.parametrize(
    "more", [b"1" * 5000, b'"\xff"', b"[" * 900 + b"]" * 900], ids=["long number", "no UTF-8", "deep"]
)
async def test_a_body_that_cannot_be_hashed_is_no_fault_of_ours(visit: Visitor, more: bytes) -> None:
    raw = b'{"name":"Ada","runtime":"external","more":' + more + b"}"
    assert (await visit("POST", "/workspaces", raw, headers=KEY)).status in (201, 400, 413)


async def test_a_request_that_broke_is_not_done_twice_and_its_repeat_does_not_wait(
    visit: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_given: object) -> None:
        raise RuntimeError("a fault of ours")

    with monkeypatch.context() as patch:
        patch.setattr(WorkspaceCreator, "create", broken)
        assert (await visit("POST", "/workspaces", ADA, headers=KEY)).status == 500
    monkeypatch.setattr(idempotency, "WAIT_SECONDS", 60.0)
    async with asyncio.timeout(30):
        again = await visit("POST", "/workspaces", ADA, headers=KEY)
    assert (again.status, again.json["code"]) == (409, "conflict")

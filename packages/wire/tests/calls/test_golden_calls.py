"""Every call matches its golden example in contracts/calls, which the platform's tests read too."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from molecule_wire.calls import (
    CallFailed,
    Reply,
    Request,
    a2a,
    activity,
    delegations,
    inbox,
    platform,
    plugins,
    registry,
    workspaces,
)
from tests.rows import each_row

GOLDEN = Path(__file__).parents[4] / "contracts" / "calls"


def read_state(reply: Reply) -> object:
    return workspaces.read_state(reply, golden("state")["arguments"]["workspace_id"])


CALLS: dict[str, tuple[Callable[..., Request], Callable[[Reply], object]]] = {
    "register": (registry.register, registry.read_registration),
    "register-with-proof": (registry.register, registry.read_registration),
    "register-runtime": (registry.register, registry.read_registration),
    "heartbeat": (registry.heartbeat, registry.read_heartbeat),
    "heartbeat-runtime": (registry.heartbeat, registry.read_heartbeat),
    "update-card": (registry.update_card, workspaces.read_nothing),
    "peers": (registry.peers, registry.read_peers),
    "discover": (registry.discover, registry.read_discovery),
    "state": (workspaces.state, read_state),
    "secrets": (workspaces.secrets, workspaces.read_secrets),
    "whoami": (workspaces.show, workspaces.read_object),
    "change-workspace": (workspaces.change, workspaces.read_object),
    "choose-model": (workspaces.choose_model, workspaces.read_object),
    "send-message": (a2a.send, a2a.read_envelope),
    "run-skill": (a2a.run_skill, a2a.read_envelope),
    "cancel-task": (a2a.cancel_task, a2a.read_envelope),
    "answer-peer": (a2a.answer, workspaces.read_nothing),
    "get-task": (a2a.get_task, a2a.read_envelope),
    "activity": (activity.fetch, activity.read_rows),
    "log-activity": (activity.log, workspaces.read_nothing),
    "notify": (activity.notify, workspaces.read_nothing),
    "inbox-lease": (inbox.lease, inbox.read_leased),
    "inbox-peek": (inbox.peek, inbox.read_peeked),
    "inbox-answer": (inbox.answer, workspaces.read_nothing),
    "inbox-answer-message": (inbox.answer, workspaces.read_nothing),
    "inbox-fail": (inbox.fail, workspaces.read_nothing),
    "inbox-ack": (inbox.ack, workspaces.read_nothing),
    "inbox-release": (inbox.release, workspaces.read_nothing),
    "inbox-extend": (inbox.extend, inbox.read_extended),
    "inbox-progress": (inbox.progress, inbox.read_progress),
    "health": (platform.health, platform.read_time),
    "delegate": (delegations.delegate, workspaces.read_object),
    "delegate-further": (delegations.delegate, workspaces.read_object),
    "get-delegation": (delegations.show, workspaces.read_object),
    "list-delegations": (delegations.list_page, delegations.read_page),
    "plugin-download": (plugins.download, plugins.read_delivered),
    "plugin-report": (plugins.report, workspaces.read_nothing),
    "plugin-forget": (plugins.forget, workspaces.read_nothing),
    "plugin-revocations": (plugins.revocations, workspaces.read_object),
}


def golden(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def plain(value: object) -> Any:
    """A result as JSON would say it, to be compared with a file; state of the process is left out."""
    if isinstance(value, list):
        return [plain(item) for item in cast("list[object]", value)]
    names = [*getattr(value, "_fields", ()), *getattr(value, "__dataclass_fields__", ())]
    if not names:
        return value
    return {name: plain(getattr(value, name)) for name in names if name not in ("cancelled", "reports")}


def told(failure: CallFailed) -> dict[str, Any]:
    names = ("status", "code", "message", "request_id", "retry_after", "extras")
    return {name: getattr(failure, name) for name in names}


def test_every_call_has_a_golden_example_and_every_example_a_call() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(CALLS)


@each_row("name", CALLS)
def test_the_arguments_of_a_call_become_its_request(name: str) -> None:
    example = golden(name)
    request = CALLS[name][0](**example["arguments"])
    made = request._asdict() | {"params": dict(request.params), "headers": dict(request.headers)}
    # An example says for every call whether it is safe to repeat, whatever makes it so.
    assert made | {"idempotent": request.repeatable} == example["request"]


@each_row(
    ("name", "index"), [(name, index) for name in CALLS for index in range(len(golden(name)["replies"]))]
)
def test_each_reply_of_a_call_becomes_its_result_or_its_failure(name: str, index: int) -> None:
    example = golden(name)["replies"][index]
    reply = Reply(**example["reply"])
    read = CALLS[name][1]
    if "error" in example:
        with pytest.raises(CallFailed) as raised:
            read(reply)
        assert told(raised.value) == example["error"]
    else:
        assert plain(read(reply)) == example["result"]

"""The same conversation in every framing: JSON-RPC and HTTP+JSON, 1.0 and 0.3, tell the same things."""

import re
from typing import Any, cast

import pytest

from tests.spec.a2a import FRAMINGS, PLATFORM_PATH, Caller, Problem, pushed
from tests.spec.platforms import Platform

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def neutral(value: Any, names: dict[str, str]) -> Any:
    """A value in which ids and times, which must differ, have names in the order of their coming."""
    if isinstance(value, dict):
        return {name: neutral(inner, names) for name, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [neutral(inner, names) for inner in cast("list[Any]", value)]
    if not isinstance(value, str):
        return value
    return TIME.sub("a time", UUID.sub(lambda found: names.setdefault(found[0], f"id {len(names)}"), value))


def refusal(caller: Caller, *ask: Any, **more: Any) -> list[Any]:
    """What an error says that does not depend on its framing."""
    with pytest.raises(Problem) as refused:
        getattr(caller, ask[0])(*ask[1:], **more)
    return [refused.value.reason, refused.value.error["message"]]


def conversation(caller: Caller) -> list[Any]:
    """Everything a caller hears while it uses every operation that all framings have."""
    say = caller.message
    heard: list[Any] = [
        caller.send(say("now", "message-1")),
        caller.send(say("work", "artifact-data-1")),
        caller.send(say("a file", "artifact-file-1")),
        caller.send(say("no", "reject-1")),
        caller.send(say("broken", "fail-1")),
    ]
    frames = caller.stream(say("in parts", "chunked-1"))
    heard += [[frame.id, frame.event] for frame in frames]
    done = frames[0].event["task"]["id"]
    heard += [caller.get(done), caller.get(done, historyLength=0)]
    heard += [[frame.id, frame.event] for frame in caller.subscribe(done, 3)]
    asked = caller.send(say("what", "input-required-1"))["task"]["id"]
    heard += [[frame.id, frame.event] for frame in caller.stream(say("this", "complete-1", taskId=asked))]
    waiting = caller.send(say("what", "input-required-2"))["task"]["id"]
    heard += [
        caller.cancel(waiting),
        refusal(caller, "cancel", waiting),
        refusal(caller, "send", say(taskId=waiting, message_id="complete-2")),
        refusal(caller, "subscribe", waiting),
        refusal(caller, "get", "nobody-s"),
        refusal(caller, "get", waiting, historyLength=-1),
    ]
    return heard


def test_a_conversation_is_the_same_in_every_framing(patient: Platform) -> None:
    with pushed(patient) as agent:
        told = {
            framing: neutral(conversation(agent.caller(*framing)), {})
            for framing in (*FRAMINGS, *PLATFORM_PATH)
        }
    expected = told["rpc", "1.0"]
    for framing, heard in told.items():
        for place, (one, other) in enumerate(zip(expected, heard, strict=True)):
            assert other == one, (framing, place)

"""Conformance of a running workspace, from outside: one check for each promise of its A2A server."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from molecule_runtime.testing.probe import CheckFailed, Probe, Version, body_of, state_of

ENDS = frozenset({"completed", "failed", "canceled", "rejected"})
SETTLED = ENDS | {"input-required", "auth-required"}
VERSIONS: tuple[Version, ...] = ("1.0", "0.3")
CANCEL_SECONDS = 15.0


@dataclass(frozen=True)
class CheckResult:
    """One line of the report; `problem` is empty when the check passed."""

    name: str
    problem: str = ""

    @property
    def passed(self) -> bool:
        """Whether the agent does what it must."""
        return not self.problem


@dataclass(frozen=True)
class ConformancePrompts:
    """What to say to the agent: something quick, and something that takes at least half a minute."""

    quick: str = "hello"
    slow: str = "/sleep 60"


Check: TypeAlias = Callable[[Probe, ConformancePrompts], None]
"""Raises CheckFailed with what is wrong."""


def run(probe: Probe, words: ConformancePrompts | None = None) -> Iterator[CheckResult]:
    """All checks, one after the other."""
    for name, check in CHECKS.items():
        try:
            check(probe, words or ConformancePrompts())
        except CheckFailed as failed:
            yield CheckResult(name, str(failed))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
            yield CheckResult(name, f"the answer could not be read: {type(problem).__name__}: {problem}")
        else:
            yield CheckResult(name)


def _card(probe: Probe, words: ConformancePrompts) -> None:
    cards = [probe.get(path) for path in ("/.well-known/agent-card.json", "/.well-known/agent.json")]
    _expect(all(card.status_code == 200 for card in cards), "the card is not at both of its paths")
    card: Any = cards[0].json()
    missing = [
        name for name in ("name", "description", "version", "skills", "capabilities") if name not in card
    ]
    _expect(not missing, f"the card lacks {', '.join(missing)}")
    _expect(cards[0].json() == cards[1].json(), "the two paths show different cards")


def _card_keeps_its_word(probe: Probe, words: ConformancePrompts) -> None:
    card: Any = probe.get("/.well-known/agent-card.json").json()
    interfaces: list[Any] = card.get("supportedInterfaces") or []
    _expect(bool(interfaces), "the card names no interface")
    for interface in interfaces:
        version, binding = str(interface.get("protocolVersion")), interface.get("protocolBinding")
        served = Probe(str(interface.get("url")), probe.headers)
        _expect(version[:3] in VERSIONS, f"the card names a version {version}")
        if binding == "HTTP+JSON":
            path = "/message:send" if version.startswith("1") else "/v1/message:send"
            message = served.message("1.0" if version.startswith("1") else "0.3", words.quick)
            answer = served.post(path, {"message": message}, **{"A2A-Version": version[:3]})
            _expect(answer.status_code == 200, f"the card promises {binding} {version} at {served.url}")
        else:
            chosen: Version = "1.0" if version.startswith("1") else "0.3"
            served.result(chosen, "send", {"message": served.message(chosen, words.quick)})
    capabilities: Any = card.get("capabilities") or {}
    if capabilities.get("streaming"):
        events = list(probe.events("1.0", "stream", {"message": probe.message("1.0", words.quick)}))
        _expect(bool(events), "the card promises streaming, and a stream was empty")


def _send(version: Version) -> Check:
    def check(probe: Probe, words: ConformancePrompts) -> None:
        result = probe.result(version, "send", {"message": probe.message(version, words.quick)})
        kind, body = body_of(result)
        _expect(kind in ("message", "task"), f"a send answered with {kind}")
        if kind == "message":
            _expect(bool(body.get("parts")), "the answer has no parts")
        else:
            _expect(
                state_of(body) in SETTLED, f"a blocking send answered with a task that is {state_of(body)}"
            )

    return check


def _stream(version: Version) -> Check:
    def check(probe: Probe, words: ConformancePrompts) -> None:
        kinds: list[str] = []
        last = ""
        for event in probe.events(version, "stream", {"message": probe.message(version, words.quick)}):
            kind, body = body_of(event)
            _expect(not last, f"a {kind} came after the task was {last}")
            _expect(kind != "message" or not kinds, "a Message came after a Task")
            _expect(kinds != ["message"], f"a {kind} came after the Message that ends a stream")
            _expect(bool(kinds) or kind in ("task", "message"), f"a stream began with {kind}")
            kinds.append(kind)
            if kind in ("task", "status") and state_of(body) in SETTLED:
                last = state_of(body)
        _expect(bool(last) or kinds == ["message"], "a stream ended without an end")

    return check


def _get_and_resubscribe(probe: Probe, words: ConformancePrompts) -> None:
    task_id, stop = _slow_task(probe, words)
    try:
        _expect(
            body_of({"task": probe.result("1.0", "get", {"id": task_id})})[1]["id"] == task_id, "get failed"
        )
        first = next(iter(probe.events("1.0", "subscribe", {"id": task_id})), None)
        _expect(first is not None, "a resubscription told nothing")
        assert first is not None
        _expect(body_of(first)[0] == "task", "a resubscription did not begin with the task")
    finally:
        probe.call("1.0", "cancel", {"id": task_id})
        stop.set()


def _cancel(probe: Probe, words: ConformancePrompts) -> None:
    task_id, stop = _slow_task(probe, words)
    began = time.monotonic()
    probe.result("1.0", "cancel", {"id": task_id})
    while time.monotonic() - began < CANCEL_SECONDS:
        state = state_of(probe.result("1.0", "get", {"id": task_id}))
        if state in ENDS:
            stop.set()
            return _expect(state == "canceled", f"a task that was cancelled ended as {state}")
        time.sleep(0.1)
    raise CheckFailed(f"a cancelled task still works after {CANCEL_SECONDS:.0f} s")


def _redelivery(probe: Probe, words: ConformancePrompts) -> None:
    row = str(uuid.uuid4())
    params = {"message": probe.message("1.0", words.quick)}
    answers = [probe.result("1.0", "send", params, X_Molecule_Message_Id=row) for _ in range(2)]
    bodies = [body_of(answer)[1] for answer in answers]
    names = [str(body.get("messageId") or body.get("id")) for body in bodies]
    _expect(names[0] == names[1], "a message that came again was handled again")


def _refusals(probe: Probe, words: ConformancePrompts) -> None:
    message = {"messageId": "m", "role": "ROLE_USER"}
    without_parts = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    cases: tuple[tuple[str, dict[str, Any], int], ...] = (
        ("an unknown method", {"jsonrpc": "2.0", "id": 1, "method": "NoSuchMethod", "params": {}}, -32601),
        ("a message without parts", without_parts, -32602),
        ("an envelope without a version", {"id": 1, "method": "SendMessage", "params": {}}, -32600),
    )
    for what, body, code in cases:
        answer: Any = probe.post("", body, **{"A2A-Version": "1.0"}).json()
        actual: Any = answer.get("error", {}).get("code")
        _expect(actual == code, f"{what} was answered with {actual}, not with {code}")
    unknown: Any = probe.call("1.0", "get", {"id": "no-such-task"})
    _expect(unknown.get("error", {}).get("code") == -32001, "an unknown task is not refused as such")


def _slow_task(probe: Probe, words: ConformancePrompts) -> tuple[str, threading.Event]:
    """A task at work, from a stream that is read beside."""
    named: list[str] = []
    first_event, stop = threading.Event(), threading.Event()

    def read() -> None:
        try:
            for event in probe.events("1.0", "stream", {"message": probe.message("1.0", words.slow)}):
                kind, body = body_of(event)
                if kind == "task" and not named:
                    named.append(str(body["id"]))
                    first_event.set()
                if stop.is_set():
                    return
        except (CheckFailed, OSError, ValueError):
            first_event.set()

    threading.Thread(target=read, daemon=True).start()
    first_event.wait(CANCEL_SECONDS)
    if not named:
        raise CheckFailed(f"a stream of {words.slow!r} did not begin with a task")
    return named[0], stop


def _expect(condition: bool, sentence: str) -> None:
    if not condition:
        raise CheckFailed(sentence)


CHECKS: dict[str, Check] = {
    "card": _card,
    "card keeps its word": _card_keeps_its_word,
    "send 1.0": _send("1.0"),
    "send 0.3": _send("0.3"),
    "stream 1.0": _stream("1.0"),
    "stream 0.3": _stream("0.3"),
    "get and resubscribe": _get_and_resubscribe,
    "cancel": _cancel,
    "redelivery": _redelivery,
    "refusals": _refusals,
}

"""The A2A server core: what a handler may say, what is remembered, what is put together."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire.a2a import errors, tasks
from molecule_wire.a2a.server import requests, task_log
from molecule_wire.a2a.server.bindings import Response
from molecule_wire.a2a.server.service import Retention, TaskService, redelivery_key
from molecule_wire.a2a.server.streams import EventStream
from molecule_wire.a2a.server.task_log import Owner
from molecule_wire.a2a.server.turns import AnswerInvalid, Turn

START = datetime(2026, 1, 2, tzinfo=UTC)


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(clock: Clock) -> TaskService:
    return TaskService(clock, secret=b"x" * 32)


def turn_of(service: TaskService, key: object = None, size: int = 0) -> Turn:
    return service.begin(service.new_task(Owner(), {"messageId": "m"}), {}, key, size=size)  # type: ignore[arg-type]


def chunk(text: str, **more: Any) -> dict[str, Any]:
    return {"artifactId": "a", "parts": [{"text": text}], **more}


def told(turn: Turn) -> str:
    [artifact] = turn.log.whole["artifacts"]  # type: ignore[misc]
    return "".join(part["text"] for part in artifact["parts"])  # type: ignore[index,call-overload]


@pytest.mark.parametrize(
    "said", [5, {"a": "dict"}, object(), b"bytes", [], [{"no": "part"}], [{"text": "a", "url": "b"}]]
)
def test_what_no_caller_can_read_is_refused_by_its_type_and_the_turn_stays_open(
    service: TaskService, said: object
) -> None:
    turn = turn_of(service)
    with pytest.raises(AnswerInvalid, match="part"):
        turn.complete(said)
    assert not turn.is_over
    turn.complete("well")
    assert turn.log.state is tasks.TaskState.COMPLETED


def test_nothing_is_said_after_the_end(service: TaskService) -> None:
    turn = turn_of(service)
    turn.complete("done")
    for late in (turn.work, turn.complete, turn.reject, turn.fail, lambda: turn.artifact(chunk("x"))):
        with pytest.raises(tasks.EventRefused) as refused:
            late()
        assert refused.value.event_reason == "event-after-terminal"


def test_a_chunk_of_an_artifact_that_never_began_is_refused(service: TaskService) -> None:
    with pytest.raises(tasks.EventRefused) as refused:
        turn_of(service).artifact(chunk("x"), append=True)
    assert refused.value.event_reason == "append-to-unknown-artifact"


@given(st.lists(st.tuples(st.text(max_size=5), st.booleans()), min_size=1, max_size=40))
def test_chunks_that_nobody_read_are_put_together_and_no_text_is_lost(pieces: list[tuple[str, bool]]) -> None:
    turn = turn_of(TaskService(Clock(), secret=b"x"))
    read: list[Any] = []
    for place, (text, is_read) in enumerate(pieces):
        turn.artifact(chunk(text), append=place > 0)
        if is_read:
            read += turn.log.after(len(read))
    read += turn.log.after(len(read))
    assert [number for number, _ in read] == list(range(1, len(read) + 1))
    assert told(turn) == "".join(text for text, _ in pieces)
    seen = [event["artifactUpdate"]["artifact"]["parts"][0]["text"] for _, event in read[1:]]
    assert "".join(seen) == told(turn)
    whole = None
    for _, event in read:
        whole = tasks.fold(whole, event)
    assert whole == turn.log.whole


def test_ten_thousand_pieces_that_nobody_reads_are_two_events(service: TaskService) -> None:
    turn = turn_of(service)
    for place in range(10_000):
        turn.artifact(chunk("x"), append=place > 0)
    assert (turn.log.number, len(told(turn))) == (2, 10_000)


def test_of_a_long_log_the_newest_events_are_kept_and_who_missed_some_is_shown_the_task(
    service: TaskService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_log, "MOST_EVENTS", 10)
    turn = turn_of(service)
    for number in range(30):
        turn.work(f"{number}")
    assert turn.log.oldest > 1
    assert [number for number, _ in turn.log.after(0)] == list(range(turn.log.oldest, 32))


def test_turns_that_are_old_or_too_many_or_too_large_are_forgotten_but_none_that_runs(clock: Clock) -> None:
    service = TaskService(clock, secret=b"x", retention=Retention(seconds=60, count=2, size=25))
    running = turn_of(service, "running", size=10)
    for number in range(4):
        turn_of(service, number).complete()
    known = [key for key in ("running", 0, 1, 2, 3) if service.known(key) is not None]
    assert known == ["running", 3]
    clock.pass_by(61)
    assert [service.known(key) is not None for key in ("running", 3)] == [True, False]
    for number in range(4, 8):
        turn_of(service, number, size=10).complete()
    assert [service.known(key) is not None for key in range(4, 8)] == [False, False, False, True]
    running.complete()


def test_what_was_called_off_or_may_be_repeated_runs_again_when_it_is_delivered_again(
    service: TaskService,
) -> None:
    turn_of(service, "called off").cancel()
    turn_of(service, "again").fail("not now", retry=True)
    turn_of(service, "failed").fail("never")
    assert [service.known(key) is None for key in ("called off", "again", "failed")] == [True, True, False]


def test_a_turn_fails_when_its_deadline_passes_and_its_handler_is_called_off(clock: Clock) -> None:
    turn = turn_of(TaskService(clock, secret=b"x", turn_seconds=5))
    called = list[str]()
    turn.on_cancel.append(lambda: called.append("off"))
    assert (turn.expire("late"), turn.seconds_left()) == (False, 5.0)
    clock.pass_by(5)
    assert (turn.expire("late"), called, turn.log.state) == (True, ["off"], tasks.TaskState.FAILED)


V1 = {"a2a-version": "1.0"}


def send(service: TaskService, headers: dict[str, str], who: str = "ann") -> Turn:
    message = b'{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}'
    body = b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":%b}}' % message
    started = list[Turn]()
    done = service.perform(requests.json_rpc(body, V1), who, headers, started.append)
    if isinstance(done, Turn):
        assert started in ([], [done])
        return done
    known = service.known(redelivery_key(who, headers))
    assert known is not None
    assert not started
    return known


def test_a_redelivery_finds_its_turn_while_it_runs_and_after_it_ended(service: TaskService) -> None:
    row = {"x-molecule-message-id": "row-1"}
    first = send(service, row)
    assert send(service, row) is first
    first.complete("done")
    assert send(service, row) is first
    assert send(service, row, "bob") is not first
    assert send(service, {}) is not send(service, {})


def test_the_stream_of_an_earlier_message_ends_with_its_own_turn(service: TaskService) -> None:
    turn = turn_of(service)
    turn.ask("which?")
    request = requests.json_rpc(b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}', V1)
    later = Turn(turn.log, {}, lambda: START)
    later.work("going on")
    events = EventStream(request, turn.log, turn.first - 1, turn=turn)
    frames = events.take()
    assert (events.is_over, frames.count(b"data: "), b"going on" in frames) == (True, 2, False)


def test_a_page_token_is_good_for_its_owner_and_question_alone(service: TaskService) -> None:
    def page(who: str, **params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": params}).encode()
        done = service.perform(requests.json_rpc(body, V1), who, {}, lambda turn: None)
        assert isinstance(done, Response)
        return json.loads(done.body)["result"]

    for who in ("ann", "ann", "bob", "bob"):
        send(service, {}, who)
    token = page("ann", pageSize=1)["nextPageToken"]
    assert len(page("ann", pageSize=1, pageToken=token)["tasks"]) == 1
    for who, params in (("bob", {}), ("ann", {"status": "TASK_STATE_WORKING"})):
        with pytest.raises(errors.A2AError, match="pageToken"):
            page(who, pageToken=token, **params)

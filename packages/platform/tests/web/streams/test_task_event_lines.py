"""One stream of a task's events: where it ends."""

import asyncio
from typing import Any

from molecule_platform.domain.tasks import TaskEvent, TaskKey
from molecule_platform.ports.storage import StorageDown
from molecule_platform.web.streams.task_event_lines import TaskEventLines
from molecule_wire.a2a.server import requests

ASKED = b'{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_INPUT_REQUIRED"}}}'
FOLLOW = b'{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"t"}}'


class Log:
    """A log whose message ends when it is asked for the third time; nothing more is written."""

    def __init__(self) -> None:
        self.key = TaskKey("w", "", "t")
        self.called = asyncio.Event()
        self.looks = 0
        self.events = [TaskEvent("status", ASKED, "1.0", 5, "m", None, "input-required")]

    def join(self, *_place: Any) -> "Log":
        return self

    def call(self) -> None:
        self.called.set()

    def at_hand(self) -> list[TaskEvent]:
        came, self.events = self.events, []
        return came

    async def next(self) -> list[TaskEvent]:
        return self.at_hand()

    def was_quiet(self) -> bool:
        return False

    async def waits_since(self, _key: TaskKey, _seq: int) -> bool:
        self.looks += 1
        return self.looks == 3

    def is_fresh(self) -> bool:
        return True

    async def still_holds(self) -> bool:
        return True


def follow(log: Any) -> TaskEventLines:
    invocation = requests.json_rpc(FOLLOW, {"a2a-version": "1.0"})
    begun: Any = type("Begun", (), {"key": log.key, "seq": 5, "events": ()})
    lines = TaskEventLines(log, log, invocation.binding, invocation.renderer, log, begun)
    lines.begin(log.call)
    return lines


async def test_a_stream_that_meets_an_outage_ends_with_an_error() -> None:
    class Away(Log):
        def is_fresh(self) -> bool:
            return False

        async def still_holds(self) -> bool:
            raise StorageDown("away")

    lines = follow(Away())
    assert lines.ready() is None
    assert b"PLATFORM_UNAVAILABLE" in (await lines.next() or b"").upper().replace(b"-", b"_")
    assert (lines.ready(), await lines.next()) == (None, None)


async def test_a_follower_of_a_question_ends_although_its_message_ends_a_moment_later() -> None:
    log = Log()
    lines = follow(log)
    told = list[bytes]()
    async with asyncio.timeout(30):
        while (chunk := lines.ready() or await lines.next()) is not None:
            told.append(chunk)
            if not chunk:
                log.called.clear()
                await log.called.wait()
    assert (b"".join(told).count(b"INPUT_REQUIRED"), log.looks) == (1, 3)

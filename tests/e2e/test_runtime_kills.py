"""Workspaces and their platform are killed while they work: every sender has one outcome, no turn is wasted.

A message has a second turn only where a kill cut its first. The turns of the three workspaces (two are
pushed to, one pulls) leave a line when they start and when they end; the lines are counted.
"""

import asyncio
import itertools
import json
import random
import signal
import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from molecule_platform.testing import servers
from molecule_runtime.links.lease_output import LEASE_SECONDS
from scripts.soak.fleet import ADMIN_TOKEN
from scripts.soak.senders import CALL_SECONDS, Errand, Sender
from tests.e2e import recording_adapter, workspaces
from tests.e2e.platform_process import PlatformProcess
from tests.e2e.workspaces import Member

LINKS = {"first": "push", "second": "push", "third": "poll"}
# The engine has ended and its answer is not written yet: a kill may come between, some ten turns at a time.
WRITING_SECONDS = 0.05
# A platform that is killed while it answers a lease has given messages to nobody: that lease must run out.
PATIENCE_SECONDS = LEASE_SECONDS + 30
ENDS = ("MESSAGE_ANSWERED", "MESSAGE_FAILED", "MESSAGE_EXPIRED", "MESSAGE_CANCELLED")
ROOT = Path(__file__).parents[2]


class Line(NamedTuple):
    """What a turn wrote when it started or ended."""

    message_id: str
    workspace_id: str
    text: str
    event: str
    attempt: int
    pid: int
    at: float


@dataclass
class Turn:
    """One start of an engine on a message."""

    pid: int
    started_at: float
    ended_at: float | None = None


class Kill(NamedTuple):
    """When a process was killed, and when it was gone; the pid is 0 for the platform."""

    pid: int
    at: float
    gone_at: float


@dataclass
class Organisation:
    """A platform with three workspaces, and the file to which their turns write."""

    platform: PlatformProcess
    members: dict[str, Member]
    file: Path
    kills: list[Kill] = field(default_factory=list[Kill])

    def lines(self) -> list[Line]:
        text = self.file.read_text() if self.file.exists() else ""
        return [Line(**json.loads(line)) for line in text.splitlines()]

    def turns(self) -> dict[str, list[Turn]]:
        """The turns of each message, in the order of their starts."""
        found: defaultdict[str, list[Turn]] = defaultdict(list)
        for line in self.lines():
            if line.event == "start":
                found[line.message_id].append(Turn(line.pid, line.at))
            else:
                at_work = [turn for turn in found[line.message_id] if turn.pid == line.pid]
                assert len(at_work) == 1, f"one process had {len(at_work)} turns of {line.message_id}"
                assert at_work[0].ended_at is None, f"{line} is a second end"
                at_work[0].ended_at = line.at
        return found

    def works(self, pids: Sequence[int]) -> bool:
        """Whether one of these processes is within a turn."""
        turns = itertools.chain.from_iterable(self.turns().values())
        return any(turn.ended_at is None and turn.pid in pids for turn in turns)

    def kill(self, victim: str) -> None:
        """Pull the plug of somebody who works, at any moment of a turn, and start them again."""
        chosen = [self.members[victim]] if victim in self.members else list(self.members.values())
        workspaces.until(lambda: self.works([member.pid for member in chosen]), lambda: f"{victim} is idle")
        time.sleep(random.uniform(0, recording_adapter.TURN_SECONDS))
        at = time.time()
        if victim in self.members:
            [member] = chosen
            member.end(signal.SIGKILL)
            self.kills.append(Kill(member.pid, at, time.time()))
            member.start()
        else:
            self.platform.kill()
            self.kills.append(Kill(0, at, time.time()))
            self.platform.start()


@contextmanager
def organisation(folder: Path) -> Generator[Organisation]:
    environment = {"ADMIN_TOKEN": ADMIN_TOKEN, "MAILBOX_MAX_OPEN": "10000"}
    platform = PlatformProcess(servers.free_port(), folder / "data", environment)
    file = folder / "turns.jsonl"
    shared = {
        "ADAPTER_MODULE": "tests.e2e.recording_adapter",
        "PYTHONPATH": workspaces.with_modules(ROOT),
        "TURN_LINES": str(file),
    }
    with ExitStack() as stack:
        stack.callback(platform.stop)
        platform.start()
        members: dict[str, Member] = {}
        for name, link in LINKS.items():
            members[name] = Member(platform, folder / name, MOLECULE_LINK=link, **shared)
            stack.callback(members[name].close)
            members[name].launch()
        for member in members.values():
            member.logged("ready: workspace")
        yield Organisation(platform, members, file)


async def send_and_kill(there: Organisation, victims: Sequence[str], errands: Sequence[Errand]) -> list[Any]:
    """Send everything, a share before each kill; the events that end messages, when all have an outcome."""
    share = -(-len(errands) // len(victims))
    timeout = aiohttp.ClientTimeout(CALL_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        sender = Sender(session, [there.platform.url])
        sending: list[asyncio.Task[None]] = []
        for number, victim in enumerate(victims):
            part = errands[number * share : (number + 1) * share]
            sending += [asyncio.create_task(sender.run(errand)) for errand in part]
            await asyncio.to_thread(there.kill, victim)
        _, late = await asyncio.wait(sending, timeout=PATIENCE_SECONDS)
        for task in late:
            task.cancel()
        named = {line.text: line.message_id for line in there.lines()}
        for errand in errands:  # what the row says must be what the sender was told
            errand.message_id = named.get(errand.words, "unknown")
            outcome = await sender.look(errand)
            if outcome is not None:
                errand.hear(outcome)
        pages = [sender._call("GET", f"/events?limit=1000&type={kind}") for kind in ENDS]
        return [event for page in await asyncio.gather(*pages) for event in page]


def judge(there: Organisation, errands: Sequence[Errand], ends: Sequence[Any]) -> dict[str, int]:
    """Check the promises on the lines; the figures."""
    told = {errand.words: [outcome.said for outcome in errand.told] for errand in errands}
    assert told == {errand.words: [f"echo: {errand.words}"] for errand in errands}
    ended_at = {end["payload"]["message_id"]: datetime.fromisoformat(end["created_at"]) for end in ends}
    assert sorted(end["payload"]["message_id"] for end in ends) == sorted(
        errand.message_id for errand in errands
    )
    turns = there.turns()
    assert turns.keys() == {errand.message_id for errand in errands}
    figures = {"messages": len(errands), "turns": 0, "cut": 0, "cut while the answer was written": 0}
    kills = {kill.pid: kill for kill in there.kills}
    for message_id, [*cut, last] in turns.items():
        figures["turns"] += len(cut) + 1
        assert last.ended_at is not None, f"{message_id} was answered, and its last turn did not end"
        for turn, following in itertools.pairwise([*cut, last]):
            # The kill lies in the turn, and the next turn after the kill: never two at once.
            kill = kills.get(turn.pid)
            assert kill is not None, f"{message_id} had a second turn after {turn}, which nobody cut"
            assert turn.started_at <= kill.gone_at <= following.started_at, (turn, following, kill)
            assert turn.ended_at is None or kill.at - turn.ended_at < WRITING_SECONDS, (turn, kill)
            figures["cut" if turn.ended_at is None else "cut while the answer was written"] += 1
        for turn in (*cut, last):
            assert turn.started_at < ended_at[message_id].timestamp(), f"{message_id} was answered already"
    return figures


def keeps_its_promise(folder: Path, messages: int, victims: Sequence[str]) -> None:
    began = time.monotonic()
    with organisation(folder) as there:
        names = list(there.members)
        errands = [
            Errand(number, names[number % 3], there.members[names[number % 3]].id)
            for number in range(messages)
        ]
        ends = asyncio.run(send_and_kill(there, victims, errands))
        figures = judge(there, errands, ends)
    assert len(there.kills) == len(victims)
    took = time.monotonic() - began
    print(f"{len(victims)} kills ({', '.join(victims)}) in {took:.1f} s: {figures}")


@pytest.mark.slow  # three kills and the starts after them
@pytest.mark.timeout(300)
def test_a_few_kills_lose_no_message_and_waste_no_turn(tmp_path: Path) -> None:
    keeps_its_promise(tmp_path, 40, ["first", "platform", "third"])


@pytest.mark.long  # ten kills and the ten starts after them
@pytest.mark.timeout(400)
def test_ten_kills_lose_no_message_and_waste_no_turn(tmp_path: Path) -> None:
    turns = itertools.cycle(["first", "platform", "third", "platform", "second"])
    keeps_its_promise(tmp_path, 200, list(itertools.islice(turns, 10)))

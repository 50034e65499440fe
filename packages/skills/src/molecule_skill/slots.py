"""Concurrency limits of an agent: a FIFO semaphore for the agent and one per skill with a cap of its own."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from molecule_skill.spec import SkillSpec

if TYPE_CHECKING:
    from molecule_skill.agent import A2AAgent

_ATTRIBUTE = "_molecule_slots"


class FifoSemaphore:
    """Semaphore that serves in the order of arrival."""

    def __init__(self, limit: int) -> None:
        self.free = limit
        self._queue: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Take a slot, after all who asked before."""
        if self.free and not self._queue:
            self.free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            else:
                self._queue.remove(turn)
            raise

    def release(self) -> None:
        """Give a slot to the next in the queue."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1


class AgentSlots:
    """The slots of one agent, shared by its instances; `stuck` names runs that ignore cancellation."""

    def __init__(self, agent: "type[A2AAgent[Any, Any]]", loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.stuck: dict[str, str] = {}
        self._agent = FifoSemaphore(agent.concurrency)
        self._skills = {
            spec.name: FifoSemaphore(spec.concurrency)
            for spec in agent.skills.values()
            if spec.concurrency is not None
        }

    @property
    def free(self) -> int:
        """How many runs could start now."""
        return self._agent.free

    def semaphores(self, spec: SkillSpec) -> list[FifoSemaphore]:
        """What a run of a skill must hold: the skill's own first, so that its queue blocks no other skill."""
        own = self._skills.get(spec.name)
        return [self._agent] if own is None else [own, self._agent]


class Slot:
    """The right of one run to be running; may be given up and taken again."""

    def __init__(self, semaphores: list[FifoSemaphore]) -> None:
        self._semaphores = semaphores
        self._held: list[FifoSemaphore] = []

    @property
    def is_free(self) -> bool:
        """Whether `take` would not wait."""
        return all(semaphore.free for semaphore in self._semaphores)

    async def take(self) -> None:
        """Wait for the slot; nothing is held if that is cancelled."""
        try:
            for semaphore in self._semaphores:
                await semaphore.acquire()
                self._held.append(semaphore)
        except asyncio.CancelledError:
            self.give_up()
            raise

    def give_up(self) -> None:
        """Let others run; harmless when nothing is held."""
        held, self._held = self._held, []
        for semaphore in held:
            semaphore.release()


def slots_of(agent: "A2AAgent[Any, Any]") -> AgentSlots:
    """The slots of an agent in the running loop; copies of an instance share them."""
    loop = asyncio.get_running_loop()
    found: Any = agent.__dict__.get(_ATTRIBUTE)
    if not isinstance(found, AgentSlots) or found.loop is not loop:
        found = AgentSlots(type(agent), loop)
        agent.__dict__[_ATTRIBUTE] = found
    return found

"""Concurrency limits of an agent: a FIFO semaphore for the agent and one per skill with a cap of its own."""

import asyncio
from collections import deque
from collections.abc import Sequence
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

    @property
    def has_room(self) -> bool:
        """Whether a slot may be taken without waiting; those who wait already come first."""
        return self.free > 0 and not self._queue

    async def acquire(self) -> None:
        """Take a slot, after all who asked before."""
        if self.has_room:
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

    def slot(self, spec: SkillSpec) -> "Slot":
        """A slot for a run of a skill: the skill's own first, so that its queue blocks no other skill."""
        own = self._skills.get(spec.name)
        return Slot(self, (self._agent,) if own is None else (own, self._agent))


class Slot:
    """The right of one run to be running; may be given up and taken again."""

    __slots__ = ("_held", "_semaphores", "slots")

    def __init__(self, slots: AgentSlots, semaphores: tuple[FifoSemaphore, ...]) -> None:
        self.slots = slots
        self._semaphores = semaphores
        self._held: Sequence[FifoSemaphore] = ()

    def take_now(self) -> bool:
        """Take the slot if it is free; True as well when it is held already."""
        if self._held:
            return True
        for semaphore in self._semaphores:
            if not semaphore.has_room:
                return False
        for semaphore in self._semaphores:
            semaphore.free -= 1
        self._held = self._semaphores
        return True

    async def take(self) -> None:
        """Wait for the slot; nothing is held if that is cancelled."""
        try:
            for semaphore in self._semaphores:
                await semaphore.acquire()
                self._held = (*self._held, semaphore)
        except asyncio.CancelledError:
            self.give_up()
            raise

    def give_up(self) -> None:
        """Let others run; harmless when nothing is held."""
        held, self._held = self._held, ()
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

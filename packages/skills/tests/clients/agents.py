"""Agents that call each other, for tests of clients."""

import asyncio
from typing import Any

from pydantic import BaseModel

from molecule_skill.agent import A2AAgent
from molecule_skill.context import RunContext
from molecule_skill.decorator import skill


class Weather(BaseModel):
    city: str
    degrees: float


class Forecaster(A2AAgent[Any, Any]):
    name = "forecaster"
    description = "Knows the weather of tomorrow."
    capabilities = {"forecasts": {"days": 1}}

    @skill(tags=("weather", "Europe"))
    async def tomorrow(self, ctx: RunContext[Any], city: str) -> Weather:
        """The weather of tomorrow in a city."""
        await ctx.emit_progress(f"looking at {city}")
        await ctx.emit_artifact(await ctx.write_artifact("map.txt", b"sun", "text/plain"))
        return Weather(city=city, degrees=21.5)

    @skill(scopes=("forecast.write",))
    async def change(self, ctx: RunContext[Any], city: str) -> str:
        """Change the weather."""
        return "rain"

    @skill()
    async def sleep(self, ctx: RunContext[Any], seconds: float) -> str:
        """Take long."""
        await asyncio.sleep(seconds)
        return "awake"

    @skill()
    async def look(self, ctx: RunContext[Any]) -> str:
        """Try to use a workspace."""
        await ctx.workspace.search("x")
        return "found"


class Planner(A2AAgent[Any, Any]):
    name = "planner"
    description = "Plans trips."

    @skill(tags=("travel",))
    async def plan(self, ctx: RunContext[Any], city: str, target: str = "forecaster") -> str:
        """Plan a trip."""
        found = await ctx.call(target, "tomorrow", args={"city": city})
        return f"{found.result['city']}: {found.result['degrees']}"


class Echo(A2AAgent[Any, Any]):
    """Calls itself, or another, as deep as it is asked to."""

    name = "echo"

    @skill()
    async def again(self, ctx: RunContext[Any], target: str, times: int) -> int:
        """Call a target so many times."""
        for _ in range(times):
            await ctx.call(target, "once", args={})
        return times

    @skill()
    async def once(self, ctx: RunContext[Any]) -> str:
        """Say something."""
        return "echo"

"""The servers of the figures about skills: an agent, and the baseline with the same models.

usage: python -m benchmarks.skill_server PORT bare|memory|sqlite [FOLDER]
"""

import sys
from pathlib import Path
from typing import Any

import uvicorn
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from molecule_skill import A2AAgent, RunContext, skill
from molecule_skill.serve import build_app, server
from molecule_skill.store import MemoryRunStore, SqliteRunStore


class Person(BaseModel):
    name: str
    age: int


class Greeting(BaseModel):
    text: str
    year: int


class Arguments(BaseModel):
    person: Person
    now: int = 2026


class Body(BaseModel):
    arguments: Arguments


class Trivial(A2AAgent[Any, Any]):
    name = "trivial"
    concurrency = 256

    @skill()
    async def greet(self, ctx: RunContext[Any], person: Person, now: int = 2026) -> Greeting:
        """Greet somebody."""
        return Greeting(text=f"Hello, {person.name}!", year=now - person.age)

    @skill()
    async def tell(self, ctx: RunContext[Any], words: int) -> int:
        """Tell so many events."""
        for number in range(words):
            await ctx.emit_progress(str(number))
        return words

    @skill()
    async def wait(self, ctx: RunContext[Any]) -> str:
        """Wait for a person."""
        return await ctx.ask("?", timeout=3600)


async def greet(request: Request) -> Response:
    asked = Body.model_validate_json(await request.body()).arguments
    made = Greeting(text=f"Hello, {asked.person.name}!", year=asked.now - asked.person.age)
    return Response(made.model_dump_json(), media_type="application/json")


def main(port: int, kind: str, folder: str = "") -> None:
    if kind == "bare":
        app = Starlette(routes=[Route("/invoke/greet", greet, methods=["POST"])])
        # uvloop and httptools, as the baseline of the other figures.
        uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", access_log=False)).run()
        return
    store = MemoryRunStore() if kind == "memory" else SqliteRunStore(Path(folder) / "runs.db")
    # As `molecule-skill run` serves it.
    served: Any = build_app(Trivial(), store=store)
    server.run(server.serve_until_signal(served, server.bind("127.0.0.1", port), lambda: None))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])

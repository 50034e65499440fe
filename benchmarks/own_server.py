"""An agent on a server of ours, answering by itself: `hi` gets `hello`.

usage: python -m benchmarks.own_server PORT sdk|asyncio
"""

import sys
import threading
from typing import Any

import uvicorn

from molecule_a2a import AgentApp, Turn
from molecule_agent import A2AServer


async def answer(turn: Turn) -> None:
    turn.answer("hello")


def answer_payload(_payload: dict[str, Any]) -> str:
    return "hello"


def main(port: int, kind: str) -> None:
    if kind == "asyncio":
        app = AgentApp(answer, {"name": "echo"}, url=f"http://127.0.0.1:{port}/", max_concurrency=128)
        uvicorn.run(app, port=port, log_level="warning")
        return
    with A2AServer("echo", "/", answer_payload, "127.0.0.1", port, max_concurrency=128):
        threading.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

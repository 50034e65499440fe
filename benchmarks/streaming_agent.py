"""Two agents that say the time as their first piece: one takes its mail from the inbox, one has a URL.

The words of a message are the seconds that the handler waits before that.

usage: python -m benchmarks.streaming_agent PORT PLATFORM_URL FOLDER INBOX_ID INBOX_TOKEN
"""

import asyncio
import sys
import threading
import time
from pathlib import Path

import uvicorn

from molecule_a2a import AgentApp, Turn
from molecule_agent import InboundMessage, InboxDelivery, RemoteAgentClient
from molecule_wire import JSONObject
from molecule_wire.a2a import text

LAST = "and no more."


def piece(words: str) -> JSONObject:
    return {"artifactId": "answer", "parts": [{"text": words}]}


def moment() -> str:
    """The clock that all processes of a machine share."""
    return f"<{time.monotonic():.6f}> "


def answer_mail(message: InboundMessage, client: RemoteAgentClient) -> str:
    time.sleep(float(message.text))
    client.progress(message, artifact=piece(moment()))
    return LAST


async def answer_turn(turn: Turn) -> str:
    await asyncio.sleep(float(text.text_of_message(turn.message)))
    turn.artifact(piece(moment()))
    await asyncio.sleep(0.05)
    return LAST


def main() -> None:
    port, url, folder, workspace_id, token = sys.argv[1:]
    client = RemoteAgentClient(workspace_id, url, token_dir=Path(folder))
    client.save_token(token)
    loop = threading.Thread(
        target=client.run_agent_loop, args=(answer_mail, InboxDelivery(client)), daemon=True
    )
    client.register()
    loop.start()
    card: JSONObject = {"name": "pushed", "capabilities": {"streaming": True}}
    app = AgentApp(answer_turn, card, url=f"http://127.0.0.1:{port}/")
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main()

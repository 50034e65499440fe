"""A small agent: joins its organisation, greets its peers, and answers every message.

It reads WORKSPACE_ID and PLATFORM_URL, and, if set, AGENT_NAME and MAX_ITERATIONS.
"""

import logging
import os

from molecule_agent import InboundMessage, InboxDelivery, RemoteAgentClient


def answer(message: InboundMessage, client: RemoteAgentClient) -> str:
    """Answer one message; the text that is returned goes back to whoever sent it."""
    sender = message.peer_name or message.source
    print(f"{sender}: {message.text}", flush=True)
    return f"You said: {message.text}"


def main() -> None:
    """Join, look around, and work until the workspace is paused or removed."""
    logging.basicConfig(level=logging.INFO)
    limit = os.environ.get("MAX_ITERATIONS")
    client = RemoteAgentClient(
        workspace_id=os.environ["WORKSPACE_ID"],
        platform_url=os.environ["PLATFORM_URL"],
        agent_card={"name": os.environ.get("AGENT_NAME", "example-agent"), "skills": []},
    )
    with client:
        client.register()
        print(f"secrets: {sorted(client.pull_secrets())}")
        print(f"peers: {[peer.name for peer in client.get_peers()]}", flush=True)
        try:
            why = client.run_agent_loop(answer, InboxDelivery(client), int(limit) if limit else None)
        except KeyboardInterrupt:
            why = "by Ctrl-C"
    print(f"stopped: {why}")


if __name__ == "__main__":
    main()

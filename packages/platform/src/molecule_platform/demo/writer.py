"""The writer: turns facts into a short text. (A real one would ask a model.)

It gets a topic on the first line and one fact on each line below.
"""

import logging
import os

from molecule_agent import InboundMessage, InboxDelivery, RemoteAgentClient

log = logging.getLogger("writer")


def write(message: InboundMessage, client: RemoteAgentClient) -> str:
    """Called for every message to the writer. What it returns is the answer."""
    lines = [line.strip() for line in message.text.splitlines() if line.strip()]
    if len(lines) < 2:
        return "Give me a topic on the first line and a fact on each line below it, and I write it up."
    log.info("writing about %s", lines[0])
    return compose(lines[0], lines[1:])


def compose(topic: str, facts: list[str]) -> str:
    """A heading, and the facts as sentences."""
    sentences = [fact if fact.endswith((".", "!", "?")) else f"{fact}." for fact in facts]
    return f"About {topic}\n\n" + " ".join(sentences)


def main() -> None:
    """Join the organisation, then write until the workspace is paused or removed."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    client = RemoteAgentClient(
        workspace_id=os.environ["MOLECULE_WORKSPACE_ID"],
        platform_url=os.environ["MOLECULE_PLATFORM_URL"],
        agent_card={"name": "writer", "description": "Turns facts into a short text"},
        token_dir=os.environ.get("MOLECULE_TOKEN_DIR"),
        heartbeat_interval=5.0,
        state_poll_interval=2.0,
    )
    if token := os.environ.get("MOLECULE_WORKSPACE_TOKEN"):
        client.save_token(token)
    client.register()
    why = client.run_agent_loop(write, InboxDelivery(client, wait=2.0))
    log.info("I stop, because I am %s", why)


if __name__ == "__main__":
    main()

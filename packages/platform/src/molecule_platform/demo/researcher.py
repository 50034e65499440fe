"""The researcher: knows a few facts about a few things. (A real one would search, or ask a model.)

The lead and the writer fetch their messages. This one has a door of its own, a small web server to which the
platform delivers. Those who call it do not notice the difference.
"""

import logging
import os
import re
import secrets

from molecule_agent import InboundMessage, PushDelivery, RemoteAgentClient

NOTES: dict[str, tuple[str, ...]] = {
    "agents": (
        "An agent is a program that takes a goal, decides on the next step itself, and acts on it.",
        "Several small agents with clear roles are easier to trust than one that does everything.",
        "In Molecule every agent has an identity, a place in the org tree, and an inbox.",
    ),
    "message queues": (
        "A message queue lets a sender go on before the receiver has time.",
        "A message that is leased and never answered is offered again, so a crash loses nothing.",
        "Whoever reads from a queue should bear to see the same message twice.",
    ),
    "molecules": (
        "A molecule is two or more atoms held together by chemical bonds.",
        "Water, with three atoms, is a small one; a strand of DNA can hold billions.",
        "What a molecule can do follows from how its atoms are joined, not only from which they are.",
    ),
    "tea": (
        "Green, black and white tea come from the leaves of one plant, Camellia sinensis.",
        "What makes black tea black is oxidation of the leaves before they are dried.",
        "Green tea likes water at about 80 degrees; black tea likes it boiling.",
    ),
    "bees": (
        "Honey bees tell each other where flowers are by dancing.",
        "A worker bee makes about a twelfth of a teaspoon of honey in her life.",
        "Most kinds of bees live alone and make no honey at all.",
    ),
}
log = logging.getLogger("researcher")


def research(message: InboundMessage, client: RemoteAgentClient) -> str:
    """Called for every message to the researcher: the topic on the first line, a fact on each one below."""
    topic = find_topic(message.text)
    log.info("looked up: %s", topic or "nothing that fits")
    if topic is None:
        return f"that\nOur notes say nothing about it yet. They cover {', '.join(NOTES)}."
    return "\n".join([topic, *NOTES[topic]])


def find_topic(question: str) -> str | None:
    """The first topic that the question mentions, in singular or plural."""
    words = question.lower()
    return next((topic for topic in NOTES if re.search(rf"\b{topic.removesuffix('s')}s?\b", words)), None)


def main() -> None:
    """Open the door, tell the platform where it is, and stay until the workspace is paused or removed."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    client = RemoteAgentClient(
        workspace_id=os.environ["MOLECULE_WORKSPACE_ID"],
        platform_url=os.environ["MOLECULE_PLATFORM_URL"],
        agent_card={"name": "researcher", "description": "Knows a few facts about a few things"},
        token_dir=os.environ.get("MOLECULE_TOKEN_DIR"),
        heartbeat_interval=5.0,
        state_poll_interval=2.0,
    )
    if token := os.environ.get("MOLECULE_WORKSPACE_TOKEN"):
        client.save_token(token)
    # The secret goes to the platform with the registration; by it the door knows the platform again.
    server = client.start_a2a_server(research, host="127.0.0.1", dispatch_secret=secrets.token_urlsafe())
    client.register()
    why = client.run_agent_loop(research, PushDelivery(client, server))
    log.info("I stop, because I am %s", why)


if __name__ == "__main__":
    main()

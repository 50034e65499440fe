"""The lead: takes questions from people, and knows whom to ask.

This file is the whole idea of Molecule. The lead does not know where its colleagues run, or how they are
built. It finds them in the organisation by name, asks one for facts, hands these to the other, and answers.
"""

import logging
import os

from molecule_agent import InboundMessage, InboxDelivery, RemoteAgentClient, errors

PATIENCE_SECONDS = 20.0
log = logging.getLogger("lead")


class Missing(Exception):
    """A colleague cannot help just now."""


def answer(message: InboundMessage, client: RemoteAgentClient) -> str:
    """Called for every message to the lead. What it returns goes back to whoever asked."""
    question = message.text.strip()
    if not question:
        return "Ask me something, for example: tell me about tea."
    log.info("a question: %s", question)
    try:
        facts = ask(client, "researcher", question)
        return ask(client, "writer", facts)
    except Missing as missing:
        return f"I would love to answer, but {missing}"


def ask(client: RemoteAgentClient, name: str, text: str) -> str:
    """Ask a colleague and wait for the answer, wherever that colleague runs."""
    # The platform shows an agent those whom the org tree lets it call: those above, below and beside it.
    colleague = next((peer for peer in client.get_peers(name) if peer.name == name), None)
    if colleague is None:
        raise Missing(f"there is no {name} in our organisation.")
    if colleague.status == "paused":
        raise Missing(f"the {name} is paused. `molecule workspace resume {name}` lets it go on.")
    log.info("asking the %s", name)
    try:
        return client.ask_peer(colleague.id, text, timeout=PATIENCE_SECONDS)
    except errors.MoleculeError as error:
        log.warning("the %s did not answer: %s", name, error)
        raise Missing(f"the {name} did not answer. Please try again in a moment.") from error


def main() -> None:
    """Join the organisation, then answer messages until the workspace is paused or removed."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    # Where the platform is and which workspace is ours. `molecule up --demo` sets these variables; for an
    # agent of your own, `molecule workspace create` prints them.
    client = RemoteAgentClient(
        workspace_id=os.environ["MOLECULE_WORKSPACE_ID"],
        platform_url=os.environ["MOLECULE_PLATFORM_URL"],
        agent_card={"name": "lead", "description": "Takes questions and shares out the work"},
        token_dir=os.environ.get("MOLECULE_TOKEN_DIR"),
        heartbeat_interval=5.0,
        state_poll_interval=2.0,
    )
    # The first start brings a token along. The client keeps it in the token directory for all later ones.
    if token := os.environ.get("MOLECULE_WORKSPACE_TOKEN"):
        client.save_token(token)
    client.register()
    # Messages wait in an inbox on the platform. So the lead works behind any firewall, and none is lost while
    # it is away. Four people can be answered at a time.
    why = client.run_agent_loop(answer, InboxDelivery(client, wait=2.0, concurrency=4))
    log.info("I stop, because I am %s", why)


if __name__ == "__main__":
    main()

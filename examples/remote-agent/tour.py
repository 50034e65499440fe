"""A tour of what an agent can do, in small functions to copy from.

It reads WORKSPACE_ID and PLATFORM_URL, prints what it finds, and ends.
"""

import os
from pathlib import Path

from molecule_agent import (
    AccessDeniedError,
    ApiError,
    InboundMessage,
    InboxDelivery,
    MoleculeError,
    PeerInfo,
    PluginPolicy,
    RemoteAgentClient,
    RetryPolicy,
    WorkspaceState,
)


def join() -> RemoteAgentClient:
    """Become a member; the policy rides out restarts of the platform."""
    client = RemoteAgentClient(
        os.environ["WORKSPACE_ID"],
        os.environ["PLATFORM_URL"],
        agent_card={"name": "tour", "skills": []},
        retry=RetryPolicy.resilient(),
        plugin_policy=PluginPolicy(signatures="if-present"),
    )
    client.register()
    return client


def ask(client: RemoteAgentClient, peer: PeerInfo, question: str) -> str | None:
    """Ask a peer, and bear that the tree may not allow it."""
    try:
        return client.ask_peer(peer.id, question, timeout=30.0)
    except AccessDeniedError as refusal:
        print(f"{peer.name} may not be called: {refusal}")
    except ApiError as refusal:
        print(f"{peer.name} did not answer: {refusal.code} {refusal.retry_after}")
    return None


def delegate(client: RemoteAgentClient, peer: PeerInfo, task: str) -> str:
    """Hand a piece of work to a peer; its id."""
    made = client.delegate(task, peer.id)
    return str(made["delegation_id"])


async def answer(message: InboundMessage, client: RemoteAgentClient) -> str | None:
    """Answer a message; a handler may be a coroutine, and may stop when nobody waits any more."""
    if message.cancelled.is_set():
        return None
    client.progress(message, "thinking")
    attempt = message.lease.attempt if message.lease else 1
    return f"{message.text}? (attempt {attempt})"


def install(client: RemoteAgentClient, name: str) -> Path | None:
    """Install a plugin if the platform has it."""
    try:
        return client.install_plugin(name)
    except MoleculeError as problem:
        print(f"{name} was not installed: {problem}")
        return None


def main() -> None:
    """Look around once."""
    with join() as client:
        state: WorkspaceState = client.poll_state()
        print(f"status: {state.status}, secrets: {sorted(client.pull_secrets())}")
        print(f"peers: {[peer.name for peer in client.get_peers()]}")
        print(f"plugins: {[plugin.name for plugin in client.list_plugins()]}")
        why: str = client.run_agent_loop(answer, InboxDelivery(client, wait=0.0), max_iterations=1)
        print(f"stopped: {why}")


if __name__ == "__main__":
    main()

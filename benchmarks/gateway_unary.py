"""What one durable message from agent to agent costs the platform's processor; its target answers at once.

Three hundred agents send with tokens of their own, in turn, to thirty-two: nothing that was looked up for one
message is of use for the next, but what the platform remembers of every agent until it changes.
"""

import functools

from benchmarks import figure, gateway, processes

SENDERS, AGENTS = 300, 32
REQUESTS = {1: 300, 16: 900, 64: 1_200}
AGAINST_BARE = {1: 18.0, 16: 13.5, 64: 9.0}
AGAINST_SDK = 0.45
WHOSE = f"{SENDERS} senders to {AGENTS} agents, "


def against_echo() -> figure.Figure:
    """Against a bare Starlette server that says the same body back."""
    return _against_echo(64)


def against_echo_at_16() -> figure.Figure:
    """The same over 16 connections."""
    return _against_echo(16)


def against_echo_alone() -> figure.Figure:
    """The same over one connection: each message waits for the one before."""
    return _against_echo(1)


def against_sdk() -> figure.Figure:
    """Against the SDK's reference server that answers the same request itself."""
    ours, _bare, sdk = _costs(64)
    ratio = gateway.Ratio(ours, sdk)
    return ratio.figure("agent to agent / a2a-sdk server", AGAINST_SDK, "requests", 64, WHOSE)


def _against_echo(connections: int) -> figure.Figure:
    (ours, bare, *_), bound = _costs(connections), AGAINST_BARE[connections]
    ratio = gateway.Ratio(ours, bare)
    return ratio.figure("agent to agent / bare Starlette echo", bound, "requests", connections, WHOSE)


@functools.cache
def _costs(connections: int) -> list[gateway.Cost]:
    """Ours, the echo's and, over 64 connections, the reference server's."""
    body, many = gateway.message("hi", "SendMessage"), REQUESTS[connections]
    with (
        gateway.running(AGENTS, senders=SENDERS) as ours,
        processes.running("benchmarks.bare_echo") as bare,
        processes.running("benchmarks.sdk_server") as sdk,
    ):
        sides = [
            ours.between_agents(body, many, connections),
            gateway.bare_echo(bare, body, many, connections),
        ]
        if connections == gateway.CONNECTIONS:
            sides.append(gateway.sdk(sdk, body, many))
        return gateway.take_turns(sides)


if __name__ == "__main__":
    print(figure.table([against_echo(), against_echo_at_16(), against_echo_alone(), against_sdk()]))

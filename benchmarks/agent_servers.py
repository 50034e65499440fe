"""What one message costs the processor at an agent's own server, against the server of the a2a-sdk."""

import functools

from benchmarks import figure, gateway, processes

REQUESTS = 500
OF_THE_SDK, ON_ASYNCIO = 0.5, 0.3


def of_the_sdk() -> figure.Figure:
    """The SDK's `A2AServer`, a thread for each connection and each message."""
    ours, _, reference = _costs()
    return gateway.Ratio(ours, reference).figure("A2AServer unary / a2a-sdk server", OF_THE_SDK, "requests")


def on_asyncio() -> figure.Figure:
    """`molecule_a2a.AgentApp` on Uvicorn."""
    _, ours, reference = _costs()
    return gateway.Ratio(ours, reference).figure("AgentApp unary / a2a-sdk server", ON_ASYNCIO, "requests")


@functools.cache
def _costs() -> list[gateway.Cost]:
    body = gateway.message("hi", "SendMessage")
    with (
        processes.running("benchmarks.own_server", "sdk") as threads,
        processes.running("benchmarks.own_server", "asyncio") as asyncio,
        processes.running("benchmarks.sdk_server") as reference,
    ):
        sides = [
            gateway.Side(server, lambda number: gateway.post("/", body(number)), REQUESTS)
            for server in (threads, asyncio)
        ]
        return gateway.take_turns([*sides, gateway.sdk(reference, body, REQUESTS)])


if __name__ == "__main__":
    print(figure.table([of_the_sdk(), on_asyncio()]))

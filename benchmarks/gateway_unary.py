"""What one durable message through the gateway costs the platform's processor; its agent answers at once."""

import functools
from typing import NamedTuple

from benchmarks import figure, gateway, processes

REQUESTS = 1_000
AGAINST_BARE, AGAINST_SDK = 5.0, 0.35


class _Costs(NamedTuple):
    ours: gateway.Cost
    bare: gateway.Cost
    sdk: gateway.Cost


def against_echo() -> figure.Figure:
    """Against a bare Starlette server that says the same body back."""
    costs = _costs()
    return gateway.Ratio(costs.ours, costs.bare).figure(
        "unary / bare Starlette echo", AGAINST_BARE, "requests"
    )


def against_sdk() -> figure.Figure:
    """Against the SDK's reference server that answers the same request itself."""
    costs = _costs()
    return gateway.Ratio(costs.ours, costs.sdk).figure("unary / a2a-sdk server", AGAINST_SDK, "requests")


@functools.cache
def _costs() -> _Costs:
    body = gateway.message("hi", "SendMessage")
    with (
        gateway.running() as ours,
        processes.running("benchmarks.bare_echo") as bare,
        processes.running("benchmarks.sdk_server") as sdk,
    ):
        sides = [
            ours.side(body, REQUESTS),
            gateway.bare_echo(bare, body, REQUESTS),
            gateway.sdk(sdk, body, REQUESTS),
        ]
        return _Costs(*gateway.take_turns(sides))


if __name__ == "__main__":
    print(figure.table([against_echo(), against_sdk()]))

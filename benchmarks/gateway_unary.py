"""What one durable message through the gateway costs the platform's processor; its agent answers at once."""

import functools

from benchmarks import figure, gateway, processes

OURS, BARE, SDK = 1_500, 6_000, 400
AGAINST_BARE, AGAINST_SDK = 5.0, 0.35


def against_echo() -> figure.Figure:
    """Against a bare Starlette server that says the same body back."""
    ours, bare, _ = _costs()
    return gateway.Ratio(ours, bare).figure("unary / bare Starlette echo", AGAINST_BARE, "requests")


def against_sdk() -> figure.Figure:
    """Against the SDK's reference server that answers the same request itself."""
    ours, _, sdk = _costs()
    return gateway.Ratio(ours, sdk).figure("unary / a2a-sdk server", AGAINST_SDK, "requests")


@functools.cache
def _costs() -> list[gateway.Cost]:
    body = gateway.message("hi", "SendMessage")
    with (
        gateway.running() as ours,
        processes.running("benchmarks.bare_echo") as bare,
        processes.running("benchmarks.sdk_server") as sdk,
    ):
        return gateway.take_turns(
            [ours.side(body, OURS), gateway.bare_echo(bare, body, BARE), gateway.sdk(sdk, body, SDK)]
        )


if __name__ == "__main__":
    print(figure.table([against_echo(), against_sdk()]))

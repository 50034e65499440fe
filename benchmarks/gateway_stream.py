"""What one relayed, numbered event costs the platform's processor: whole streams, divided by their events."""

import functools

from benchmarks import figure, gateway, processes

EVENTS = 50
AROUND = 3
"""Events of the SDK's server that are no chunk: the Task, its start, its end."""

OURS, BARE, SDK = 64, 2_000, 16
AGAINST_BARE, AGAINST_SDK = 2.0, 0.35


def against_echo() -> figure.Figure:
    """Against a request to a bare Starlette server that says its body back."""
    ours, bare, _ = _costs()
    return gateway.Ratio(ours, bare).figure("stream event / bare Starlette echo", AGAINST_BARE, "events")


def against_sdk() -> figure.Figure:
    """Against an event of the SDK's reference server that makes the stream itself."""
    ours, _, sdk = _costs()
    return gateway.Ratio(ours, sdk).figure("stream event / a2a-sdk server", AGAINST_SDK, "events")


@functools.cache
def _costs() -> list[gateway.Cost]:
    method = "SendStreamingMessage"
    with (
        gateway.running() as ours,
        processes.running("benchmarks.bare_echo") as bare,
        processes.running("benchmarks.sdk_server") as sdk,
    ):
        return gateway.take_turns(
            [
                ours.side(gateway.message(str(EVENTS), method), OURS, EVENTS),
                gateway.bare_echo(bare, gateway.message("hi", method), BARE),
                gateway.sdk(sdk, gateway.message(f"task:{EVENTS - AROUND}", method), SDK, EVENTS),
            ]
        )


if __name__ == "__main__":
    print(figure.table([against_echo(), against_sdk()]))

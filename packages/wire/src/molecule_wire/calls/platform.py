"""Calls about the platform itself: does it answer, and what time is it there."""

from molecule_wire.calls import failures, retry, values


def health() -> values.Request:
    """Ask whether the platform is up."""
    return values.Request("GET", "/health")


def read_time(reply: values.Reply) -> float | None:
    """Read from any answer what time it was at the platform, in seconds since the epoch, if it says so."""
    failures.check(reply)
    return retry.moment_of(reply.header("Date"))

"""W3C trace context: a `traceparent` names a trace and one step in it."""


def within(trace: str | None, step: str | None) -> str | None:
    """A step, as a part of another step's trace: what is sent for a message belongs to its trace."""
    if trace is None or step is None:
        return trace or step
    version, trace_id, _parent, flags = trace.split("-")
    return "-".join((version, trace_id, step.split("-")[2], flags))

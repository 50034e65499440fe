"""Entity tags: whether a caller has already what it asks for."""

from molecule_platform.web.pipeline.calls import Call


def is_known(call: Call, tag: str) -> bool:
    """Whether the caller names this tag among those it has."""
    given = [one.strip().removeprefix("W/") for one in call.headers.get("if-none-match", "").split(",")]
    return tag in given or given == ["*"]

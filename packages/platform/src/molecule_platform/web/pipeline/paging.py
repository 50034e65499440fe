"""How a list says that there is more of it."""


def next_cursor(cursor: str | None) -> tuple[tuple[str, str], ...]:
    """The header that leads to the next page, if there is one."""
    return () if cursor is None else (("x-next-cursor", cursor),)

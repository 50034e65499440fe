"""The log, as services write it."""

from typing import Any, Protocol


class Log(Protocol):
    """Structured lines. Nobody hands a secret to it."""

    def info(self, event: str, **fields: Any) -> None:
        """Something an operator may want to know."""
        ...

    def warning(self, event: str, **fields: Any) -> None:
        """Something an operator should look at."""
        ...

    def error(self, event: str, **fields: Any) -> None:
        """Something that went wrong here."""
        ...

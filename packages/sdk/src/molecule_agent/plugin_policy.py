"""What a program demands of the plugins it installs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from molecule_agent import errors

SIGNATURES = ("if-present", "require")


@dataclass(frozen=True)
class PluginPolicy:
    """How signatures count, and whose; `None` leaves the first to `MOLECULE_PLUGIN_SIGNATURES`.

    Each trusted key is a line as in `~/.molecule/trusted_keys`, whose keys are trusted too:
    `ed25519:<key>`, then the plugins it may sign (`acme-*`) unless it may sign all.
    """

    signatures: Literal["if-present", "require"] | None = None
    trusted_keys: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.signatures not in (None, *SIGNATURES):
            raise errors.ConfigurationError(
                f"signatures={self.signatures!r}: write one of {', '.join(SIGNATURES)}"
            )

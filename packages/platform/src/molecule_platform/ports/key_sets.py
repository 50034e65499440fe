"""Keys that others show to the world, so that what they signed can be checked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from molecule_platform.domain.card_signatures import Origin

PublicKey: TypeAlias = Mapping[str, Any]
"""A JWK as somebody wrote it: nothing of it is checked yet."""

Verify: TypeAlias = Callable[[PublicKey, str, bytes, bytes], bool | None]
"""Key, algorithm, signature, bytes: whether the key made it; None if it is no key for the algorithm."""


class NoKeys(Exception):
    """The keys cannot be had right now. The text says why."""


@dataclass(frozen=True)
class KeySet:
    """The keys of a place, as they are now, or as they were when they were last looked at."""

    keys: Sequence[PublicKey]
    is_kept: bool = False


class KeySets(Protocol):
    """JWKS documents at other people's URLs."""

    def origin(self, url: str) -> Origin | None:
        """Where a URL leads; None if it may not be called."""
        ...

    async def keys(self, url: str, *, anew: bool = False) -> KeySet:
        """The keys shown there, perhaps as they were minutes ago; `anew` as they are now. Raises `NoKeys`."""
        ...

"""The keys that seal what is stored, as services see them: by their ids."""

from collections.abc import Collection
from typing import Protocol


class Keys(Protocol):
    """The key that seals, and the older ones that still open."""

    @property
    def current_id(self) -> str:
        """The key that seals."""
        ...

    @property
    def key_ids(self) -> frozenset[str]:
        """All keys that can open something."""
        ...

    def renew(self) -> bool:
        """Make a new key and seal with it from now on. False when the key is the operator's to change."""
        ...

    def forget(self, key_ids: Collection[str]) -> None:
        """Throw keys away for good; never the one that seals."""
        ...

"""How large a plugin may be."""

from dataclasses import dataclass

_KIB = 1024
_MIB = 1024 * _KIB


@dataclass(frozen=True)
class Limits:
    """What an archive and its unpacked tree may have at most; `dataclasses.replace` makes other ones."""

    archive_bytes: int = 100 * _MIB
    tree_bytes: int = 100 * _MIB
    file_bytes: int = 50 * _MIB
    entries: int = 10_000
    path_bytes: int = 512
    depth: int = 32
    memory_block_bytes: int = 256 * _KIB
    signature_bytes: int = 8 * _KIB
    ratio: int = 200
    ratio_free_bytes: int = _MIB

    def unpacked_bytes(self, archive_bytes: int) -> int:
        """How many bytes an archive of this size may become, by its compression ratio alone."""
        return max(self.ratio_free_bytes, self.ratio * archive_bytes)


LIMITS = Limits()

"""Paths and patterns of workspace files; the rules are those of `molecule_wire.paths`."""

from molecule_wire.paths import check_pattern, covers, matches, normalize

__all__ = ["check_pattern", "covers", "matches", "normalize"]

"""Pages bounded in bytes: sizes are asked for first, so that no page loads more than it shows."""

from collections.abc import Iterable
from itertools import accumulate, takewhile

from molecule_platform.ports.pages import PAGE_MAX_BYTES


def fitting(sizes: Iterable[int]) -> int:
    """How many of these rows, from the first on, make a page; one at least, however large it is."""
    weights = enumerate(accumulate(sizes))
    return sum(1 for _ in takewhile(lambda one: one[0] == 0 or one[1] <= PAGE_MAX_BYTES, weights))

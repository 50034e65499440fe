"""Deadlines of tests: `MOLECULE_TEST_FACTOR` stretches them where other work shares the machine."""

import os

FACTOR = float(os.environ.get("MOLECULE_TEST_FACTOR") or 1)


def stretch(seconds: float) -> float:
    """Return the seconds that a deadline is given on this machine."""
    return seconds * FACTOR

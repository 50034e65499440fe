"""Golden examples, read from `contracts/` at the root of the repository."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

CONTRACTS = Path(__file__).parents[4] / "contracts" / "a2a"


settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture
def golden() -> Callable[[str], list[dict[str, Any]]]:
    """Read one file of golden cases."""
    return lambda name: json.loads((CONTRACTS / f"{name}.json").read_text())

"""Fixtures of the skill tests: every run store, behind one name."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from packages.skills.tests import stores


@pytest.fixture(params=["memory", "sqlite"])
async def under_test(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[stores.StoreUnderTest]:
    found = stores.make(request.param, tmp_path)
    yield found
    await found.store.close()

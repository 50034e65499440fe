"""Coming in: counted before anything is written, and for whoever shows the credential."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.web.exchange import HttpInput
from molecule_platform.web.pipeline.authentication import AdmissionControl, AuthContext, Authenticator
from molecule_platform.web.pipeline.concurrency_limits import ConcurrencyLimiter
from molecule_platform.web.pipeline.rate_limits import RateLimiter
from molecule_platform.web.pipeline.request import EdgeSettings, Request
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.route_table import TABLE

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Visitor

LISTING = next(route for route in TABLE if (route.method, route.path) == ("GET", "/workspaces"))
STREAM = next(route for route in TABLE if route.path == "/events/stream")


class Porch:
    """A doorkeeper of a running house who lets four in, and then one a second."""

    def __init__(self, visit: Visitor) -> None:
        self.visit = visit
        limits = RateLimiter(16, 16, lambda: 1, lambda: 0.0)
        services, gate = visit.platform._services, visit.platform._pipeline._gate
        self.door = Authenticator(
            AdmissionControl(
                services.identity, services.authority, limits, gate.idempotent_handler, ConcurrencyLimiter(0)
            )
        )

    async def come(
        self, *more: tuple[str, str], route: Route = LISTING, query: str = "", **headers: str
    ) -> Principal | str:
        """Who came in, or why nobody did."""
        sent = {name.replace("_", "-"): value for name, value in (*headers.items(), *more)}
        came = HttpInput("GET", route.path, query.encode(), sent, peer="::1")
        try:
            return await self.door.authenticate(AuthContext(Request(came, EdgeSettings()), route), route)
        except ApiError as refusal:
            return refusal.code

    async def deeds(self) -> list[str]:
        org_id = (await self.visit("GET", f"/orgs/{self.visit.org}")).json["id"]
        storage = self.visit.platform._resources.storage
        newest = await storage.read(lambda tx: tx.audit.newest(org_id, 100))
        return [deed.action for deed in newest]


@pytest.fixture
def porch(visit: Visitor) -> Porch:
    return Porch(visit)


async def an_actor(visit: Visitor) -> str:
    body = {"name": "actor", "scopes": ["org.impersonate"]}
    return f"Bearer {(await visit('POST', '/org/tokens', body)).json['auth_token']}"


async def test_acting_as_a_workspace_is_written_down_once_for_each_visit_that_is_let_in(
    visit: Visitor, porch: Porch
) -> None:
    ada, _ = await visit.workspace()
    actor = await an_actor(visit)
    came = [await porch.come(authorization=actor, x_workspace_id=ada) for _ in range(10)]
    assert came[4:] == ["rate-limited"] * 6
    assert await porch.deeds() == ["act-as"] * 4


async def test_whoever_acts_as_a_workspace_spends_nothing_of_its_budget(visit: Visitor, porch: Porch) -> None:
    ada, token = await visit.workspace()
    actor = await an_actor(visit)
    for _ in range(5):
        await porch.come(authorization=actor, x_workspace_id=ada)
    came = await porch.come(authorization=f"Bearer {token}")
    assert isinstance(came, Principal)
    assert (came.workspace_id, came.acted_by) == (ada, "")


@pytest.mark.parametrize("named", [("x-molecule-org-id", "nowhere"), ("x-workspace-id", "system:clock")])
async def test_a_visit_that_names_what_it_may_not_is_counted_too(
    visit: Visitor, porch: Porch, named: tuple[str, str]
) -> None:
    actor = await an_actor(visit)
    came = [await porch.come(named, authorization=actor) for _ in range(5)]
    assert came[-1] == "rate-limited"
    assert "rate-limited" not in came[:4]


async def test_wrong_credentials_cost_the_address_and_good_ones_behind_it_still_come_in(
    visit: Visitor, porch: Porch
) -> None:
    _, token = await visit.workspace()
    guesses = [await porch.come(authorization=f"Bearer guess-{number}") for number in range(3)]
    assert guesses[-1] == "rate-limited"
    assert await porch.come(route=STREAM, query="ticket=made-up") == "rate-limited"
    assert isinstance(await porch.come(authorization=f"Bearer {token}"), Principal)

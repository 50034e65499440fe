"""The house itself: health, readiness, versions, figures."""

from typing import Any

from msgspec import UNSET, UnsetType

from molecule_platform.domain.authorisation import ANY, PUBLIC, org_with
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.schemas import Schema


class Health(Schema):
    """The process is up."""

    status: str
    version: str


class Checks(Schema):
    """What readiness looks at: each `ok` or `failed`."""

    storage: str
    keys: str
    migrations: str


class Readiness(Schema):
    """Whether the process can serve: `ready` or `not_ready`."""

    status: str
    checks: Checks


class Version(Schema):
    """What this platform speaks and has."""

    version: str
    api: str
    a2a: list[str]
    features: list[str]


class PublicKey(Schema):
    """A JWK; `y` is there where the curve has one."""

    kty: str
    crv: str
    x: str
    kid: str
    alg: str
    use: str
    y: str | UnsetType = UNSET


class KeySet(Schema):
    """The platform's public keys, and how it names itself in what it signs."""

    issuer: str
    keys: list[PublicKey]


class RotatedKeys(Schema):
    """The new keys by algorithm, from when on they sign, and those before."""

    status: str
    keys: dict[str, str]
    signs_at: str
    retired: list[str]


class Subsystem(Schema):
    """One loop of the house."""

    last_tick_at: str | None
    seconds_ago: float | None
    restarts: int
    ok: bool


class Liveness(Schema):
    """Every loop of the house, by name."""

    subsystems: dict[str, Subsystem]


def _watch(name: str, path: str, summary: str, reply: type[Schema], *status: int) -> Route:
    """What balancers ask all day."""
    return Route(
        name, "GET", path, (PUBLIC,), summary, reply=reply, status=status, unlimited=True, quiet=True
    )


ROUTES = (
    _watch("health", "/health", "The process is up.", Health, 200),
    _watch("health", "/healthz", "The same as /health.", Health, 200),
    _watch("ready", "/ready", "It can serve: storage, keys and migrations are fine.", Readiness, 200, 503),
    _watch("ready", "/readyz", "The same as /ready.", Readiness, 200, 503),
    Route(
        "metrics",
        "GET",
        "/metrics",
        (org_with("metrics.read"),),
        "Figures for Prometheus.",
        reply=str,
        media="text/plain",
        unlimited=True,
        quiet=True,
    ),
    Route(
        "jwks",
        "GET",
        "/.well-known/jwks.json",
        (PUBLIC,),
        "The keys with which signatures of this platform are checked.",
        reply=KeySet,
        quiet=True,
    ),
    Route(
        "key.rotate",
        "POST",
        "/admin/keys/rotate",
        (org_with("admin"),),
        "Make new keys to sign with; those before stay listed for 30 days.",
        reply=RotatedKeys,
    ),
    Route("version", "GET", "/version", (ANY,), "What this platform speaks and has.", reply=Version),
    Route(
        "openapi", "GET", "/openapi.json", (ANY,), "This table as an OpenAPI document.", reply=dict[str, Any]
    ),
    Route("docs", "GET", "/docs", (ANY,), "This table as a page to read.", reply=str, media="text/html"),
    Route("liveness", "GET", "/admin/liveness", (org_with("admin"),), "How the loops do.", reply=Liveness),
)

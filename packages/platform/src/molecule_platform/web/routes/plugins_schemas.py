"""Plugins: the platform's own, those of workspaces, and what organisations allow and trust."""

from typing import Any

from msgspec import UNSET, UnsetType

from molecule_platform.domain.authorisation import ANY, org_with, self_with
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.schemas import Body, NewBody, Query, Schema


class ListPlugins(Query):
    """Which plugins: those for a runtime, or all."""

    runtime: str | None = None


class Offered(Schema):
    """A plugin that the platform offers. Without `runtimes` it suits any."""

    name: str
    version: str
    description: str
    author: str
    tags: list[str]
    skills: list[str]
    runtimes: list[str] | None
    sha256: str
    signed: bool
    signed_by: list[str]


class Installed(Offered):
    """A plugin that a workspace has, or that its agent reported."""

    source: str
    resolved: str
    installed_at: str
    state: str
    supported_on_runtime: bool


class Sources(Schema):
    """Where plugins may come from."""

    schemes: list[str]


class CheckRuntime(Query):
    """The runtime that a workspace may move to."""

    runtime: str


class Compatibility(Schema):
    """What a workspace has, split by whether it works on a runtime."""

    target_runtime: str
    compatible: list[Installed]
    incompatible: list[Installed]
    all_compatible: bool


class InstallPlugin(Body):
    """What to install; with `sha256` only if it is exactly that. Another signer needs an operator's word."""

    source: str
    sha256: str | None = None
    upgrade: bool = False
    allow_signer_change: bool = False


class InstalledNow(Schema):
    """The plugin is in its place, or written down for an agent that installs by itself."""

    status: str
    plugin: str
    source: str
    resolved: str
    version: str
    sha256: str
    warnings: list[str]
    matched: str | UnsetType = UNSET


class Uninstalled(Schema):
    """The plugin is gone but for what its user changed."""

    status: str
    plugin: str
    kept: list[str]


class Download(Query):
    """Where the plugin comes from; without it, from the platform's own."""

    source: str | None = None


class PutAllowlist(Body):
    """Names, globs, or beginnings of sources; who wrote it is known from the credential."""

    plugins: list[str]
    enabled_by: Any = None


class Allowlist(Schema):
    """What an organisation allows; an empty list is everything."""

    org_id: str
    plugins: list[str]
    allow_all: bool


class Publisher(NewBody):
    """A key, a name for people, and globs of the plugins it may sign; without any, all."""

    key: str
    name: str = ""
    allow: list[str] = []


class PutKeys(NewBody):
    """The keys that an organisation trusts from now on."""

    keys: list[Publisher]


class KeyRow(Schema):
    """A key that an organisation trusts."""

    key: str
    name: str
    allow: list[str]


class Keys(Schema):
    """The keys that an organisation trusts."""

    keys: list[KeyRow]


class RevokedKey(NewBody):
    """A key whose signatures count no more."""

    key_id: str
    reason: str = ""
    revoked_at: str = ""


class RevokedDigest(NewBody):
    """A content that nobody may install."""

    content_sha256: str
    reason: str = ""


class RevokedPlugin(NewBody):
    """Versions that nobody may install; `*` is all of them."""

    name: str
    versions: list[str]
    reason: str = ""


class PutRevocations(NewBody):
    """The list from now on; without a version it becomes the next one. When it changed is ours to say."""

    version: int | None = None
    updated_at: str | None = None
    keys: list[RevokedKey] = []
    digests: list[RevokedDigest] = []
    plugins: list[RevokedPlugin] = []


class Revocations(Schema):
    """What nobody may install any more. The version only grows."""

    version: int
    updated_at: str
    keys: list[RevokedKey]
    digests: list[RevokedDigest]
    plugins: list[RevokedPlugin]


_READ = (self_with("ws.plugins"), org_with("org.read"))
_WRITE = (self_with("ws.plugins"), org_with("org.write"))
_ORG = (org_with("org.write"),)
_OF = "/workspaces/{id}/plugins"

_FETCHING = (
    "plugin-not-allowed",
    "plugin-signature-required",
    "not-found",
    "conflict",
    "plugin-lock-mismatch",
    "payload-too-large",
    "plugin-source-unpinned",
    "plugin-integrity",
    "plugin-signature-invalid",
    "plugin-revoked",
    "plugin-manifest-invalid",
    "unsafe-archive",
    "fetch-failed",
    "deadline-exceeded",
)

ROUTES = (
    Route(
        "plugin.list",
        "GET",
        "/plugins",
        (ANY,),
        "The plugins that the platform offers.",
        query=ListPlugins,
        reply=list[Offered],
    ),
    Route("plugin.sources", "GET", "/plugins/sources", (ANY,), "Where plugins may come from.", reply=Sources),
    Route(
        "plugin.revocations",
        "GET",
        "/plugins/revocations",
        (ANY,),
        "What nobody may install any more.",
        reply=Revocations,
        status=(200, 304),
    ),
    Route(
        "plugin.revoke",
        "PUT",
        "/plugins/revocations",
        (org_with("admin"),),
        "Write the list of what nobody may install anew.",
        PutRevocations,
        reply=Revocations,
        refusals=("version-conflict",),
    ),
    Route("plugin.installed", "GET", _OF, _READ, "The plugins of a workspace.", reply=list[Installed]),
    Route(
        "plugin.available",
        "GET",
        f"{_OF}/available",
        _READ,
        "The plugins that a workspace could install.",
        reply=list[Offered],
    ),
    Route(
        "plugin.compatibility",
        "GET",
        f"{_OF}/compatibility",
        _READ,
        "Which plugins of a workspace work on another runtime.",
        query=CheckRuntime,
        reply=Compatibility,
    ),
    Route(
        "plugin.install",
        "POST",
        _OF,
        _WRITE,
        "Install a plugin, or report one that an external agent installed.",
        InstallPlugin,
        reply=InstalledNow,
        refusals=_FETCHING,
        limit="plugin",
    ),
    Route(
        "plugin.uninstall",
        "DELETE",
        f"{_OF}/{{name}}",
        _WRITE,
        "Take a plugin away.",
        reply=Uninstalled,
        refusals=("not-found", "conflict"),
    ),
    Route(
        "plugin.download",
        "GET",
        f"{_OF}/{{name}}/download",
        (self_with("ws.plugins"),),
        "A plugin as a gzip tar, the same bytes each time; its headers say what it is.",
        query=Download,
        reply=bytes,
        status=(200, 304),
        media="application/gzip",
        refusals=_FETCHING,
    ),
    Route(
        "plugin.allowlist",
        "GET",
        "/orgs/{org}/plugins/allowlist",
        _ORG,
        "What an organisation allows.",
        reply=Allowlist,
        refusals=("not-found",),
    ),
    Route(
        "plugin.allow",
        "PUT",
        "/orgs/{org}/plugins/allowlist",
        _ORG,
        "Write what an organisation allows anew; an empty list is everything.",
        PutAllowlist,
        reply=Allowlist,
        refusals=("not-found",),
    ),
    Route(
        "plugin.keys",
        "GET",
        "/orgs/{org}/plugins/keys",
        _ORG,
        "The publishers' keys that an organisation trusts.",
        reply=Keys,
        refusals=("not-found",),
    ),
    Route(
        "plugin.trust",
        "PUT",
        "/orgs/{org}/plugins/keys",
        _ORG,
        "Write the publishers' keys that an organisation trusts anew.",
        PutKeys,
        reply=Keys,
        refusals=("not-found",),
    ),
)

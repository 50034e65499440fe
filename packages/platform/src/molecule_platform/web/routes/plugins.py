"""Plugins: the platform's own, those of workspaces, and what organisations allow and trust."""

import asyncio
import base64
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec

from molecule_platform.domain.errors import ApiError
from molecule_platform.ports.plugin_sources import PluginCache, StagedPlugin
from molecule_platform.ports.plugins import PublisherKey
from molecule_platform.services.plugins.plugin_policy import AllowList, PluginRules
from molecule_platform.services.plugins.plugin_supply import PluginSupply
from molecule_platform.services.plugins.workspace_plugins import (
    InstallRequest,
    WorkspacePlugins,
)
from molecule_platform.services.support.audit_log import AuditActor
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.etags import is_known
from molecule_platform.web.routes import plugins_schemas as shapes

ARCHIVE = "application/gzip"
_CHUNK = 256 * 1024
_NOT_IN_A_HEADER = re.compile(r"[^ -~]")
_NOT_IN_A_FILE_NAME = re.compile(r"[^A-Za-z0-9._+-]")


class PluginHandlers:
    """Serves /plugins, /workspaces/{id}/plugins and /orgs/{org}/plugins."""

    def __init__(
        self, plugins: WorkspacePlugins, supply: PluginSupply, rules: PluginRules, stock: PluginCache
    ) -> None:
        self._plugins = plugins
        self._supply = supply
        self._rules = rules
        self._stock = stock

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "plugin.list": self.listing,
            "plugin.sources": self.sources,
            "plugin.revocations": self.revocations,
            "plugin.revoke": self.revoke,
            "plugin.installed": self.installed,
            "plugin.available": self.available,
            "plugin.compatibility": self.compatibility,
            "plugin.install": self.install,
            "plugin.uninstall": self.uninstall,
            "plugin.download": self.download,
            "plugin.allowlist": self.allowlist,
            "plugin.allow": self.allow,
            "plugin.keys": self.keys,
            "plugin.trust": self.trust,
        }

    async def listing(self, call: Call) -> Response:
        """What the platform offers."""
        asked: shapes.ListPlugins = call.query_params
        return Response(await self._plugins.catalogue(call.principal.org_id, asked.runtime))

    async def sources(self, call: Call) -> Response:
        """The schemes."""
        return Response({"schemes": self._stock.schemes})

    async def revocations(self, call: Call) -> Response:
        """What nobody may install, unless the caller knows it already."""
        listed = await self._rules.revocations()
        headers = (("etag", f'"{listed["version"]}"'),)
        return (
            Response(None, 304, headers) if is_known(call, headers[0][1]) else Response(listed, 200, headers)
        )

    async def revoke(self, call: Call) -> Response:
        """Write the list anew."""
        body: shapes.PutRevocations = call.body
        given: dict[str, Any] = msgspec.to_builtins(body)
        given.pop("updated_at")
        listed = await self._rules.revoke(call.principal, call.request_id, given)
        return Response(listed, 200, (("etag", f'"{listed["version"]}"'),))

    async def installed(self, call: Call) -> Response:
        """What a workspace has."""
        return Response(await self._plugins.installed(call.workspace))

    async def available(self, call: Call) -> Response:
        """What a workspace could install."""
        return Response(await self._plugins.available(call.workspace))

    async def compatibility(self, call: Call) -> Response:
        """What would work on another runtime."""
        asked: shapes.CheckRuntime = call.query_params
        return Response(await self._plugins.compatibility(call.workspace, asked.runtime))

    async def install(self, call: Call) -> Response:
        """Install a plugin, or write down a report."""
        body: shapes.InstallPlugin = call.body
        itself = call.principal.workspace_id is not None
        if body.allow_signer_change and itself:
            raise ApiError("forbidden", "only an operator's credential may allow another signer")
        wish = InstallRequest(
            body.source, body.sha256, body.upgrade, body.allow_signer_change, reported=itself
        )
        done = await self._plugins.install(_by(call), call.workspace, wish)
        answer = {
            "status": done.row.state,
            "plugin": done.row.name,
            "source": done.row.source,
            "resolved": done.row.resolved_ref,
            "version": done.row.version,
            "sha256": done.row.sha256,
            "warnings": list(done.warnings),
        }
        return Response(answer if done.matched is None else {**answer, "matched": done.matched})

    async def uninstall(self, call: Call) -> Response:
        """Take a plugin away."""
        name = call.path["name"]
        await self._plugins.uninstall(_by(call), call.workspace, name)
        # What an agent's user changed, its own process finds and keeps.
        return Response({"status": "uninstalled", "plugin": name, "kept": []})

    async def download(self, call: Call) -> Response:
        """The archive, from disk as it is taken."""
        asked: shapes.Download = call.query_params
        supplied = await self._supply.for_download(call.workspace.org_id, call.path["name"], asked.source)
        headers = _headers(supplied.staged)
        if is_known(call, headers["etag"]):
            return Response(None, 304, tuple(headers.items()), ARCHIVE)
        archive, size = supplied.staged.archive, supplied.staged.size
        return Response(None, 200, tuple(headers.items()), ARCHIVE, _chunks(archive), size)

    async def allowlist(self, call: Call) -> Response:
        """What an organisation allows."""
        return _allowed(await self._rules.allowlist(call.principal, call.path["org"]))

    async def allow(self, call: Call) -> Response:
        """Write it anew."""
        body: shapes.PutAllowlist = call.body
        return _allowed(
            await self._rules.put_allowlist(call.principal, call.request_id, call.path["org"], body.plugins)
        )

    async def keys(self, call: Call) -> Response:
        """The keys that an organisation trusts."""
        return _keys(await self._rules.keys(call.principal, call.path["org"]))

    async def trust(self, call: Call) -> Response:
        """Write them anew."""
        body: shapes.PutKeys = call.body
        given = [(one.key, one.name, one.allow) for one in body.keys]
        return _keys(await self._rules.put_keys(call.principal, call.request_id, call.path["org"], given))


def _by(call: Call) -> AuditActor:
    return AuditActor(call.principal.text, call.request_id)


def _allowed(found: AllowList) -> Response:
    return Response({"org_id": found.org_id, "plugins": found.entries, "allow_all": not found.entries})


def _keys(found: list[PublisherKey]) -> Response:
    return Response({"keys": [{"key": key.key, "name": key.name, "allow": key.allow} for key in found]})


def _headers(staged: StagedPlugin) -> dict[str, str]:
    file = _NOT_IN_A_FILE_NAME.sub("_", f"{staged.name}-{staged.version}")
    headers = {
        "content-disposition": f'attachment; filename="{file[:200]}.tar.gz"',
        "etag": f'"{staged.archive_sha256}"',
        "x-plugin-name": staged.name,
        "x-plugin-source": _NOT_IN_A_HEADER.sub("?", staged.resolved),
        "x-plugin-version": _NOT_IN_A_HEADER.sub("?", staged.version)[:200],
        "x-plugin-sha256": staged.content_sha256,
        "x-plugin-archive-sha256": staged.archive_sha256,
    }
    if staged.signature is not None:
        text = base64.urlsafe_b64encode(staged.signature)
        headers["x-plugin-signature"] = text.decode("ascii").rstrip("=")
    return headers


async def _chunks(archive: Path) -> AsyncGenerator[bytes]:
    file = await asyncio.to_thread(archive.open, "rb")
    try:
        while chunk := await asyncio.to_thread(file.read, _CHUNK):
            yield chunk
    finally:
        file.close()

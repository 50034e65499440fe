"""The plugins that a fake platform has."""

import hashlib
import io
import re
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from molecule_agent.testing import request_bodies
from molecule_agent.testing.http_messages import PlatformResponse, RequestRejected, RouteCall, invalid
from molecule_agent.testing.request_bodies import BodySchema
from molecule_wire import JSONObject

if TYPE_CHECKING:
    from molecule_plugin.keys import SigningKey

SCHEMES = ("github", "local")

_COMMIT = re.compile(r"[0-9a-f]{40}")
_REPORT = BodySchema(
    {
        "source": "str",
        "sha256": "str | null",
        "upgrade": "bool",
        "allow_signer_change": "bool",
    },
    required=("source",),
)


@dataclass(frozen=True)
class Plugin:
    """One version of a plugin, packed."""

    name: str
    version: str
    archive: bytes
    archive_sha256: str
    content_sha256: str
    signature: bytes | None = None

    @property
    def commit(self) -> str:
        """What stands for the commit of this version at a source that has commits."""
        return self.archive_sha256[:40]


class PluginCatalogue:
    """Every version of every plugin, by its source without the ref."""

    def __init__(self, unpinned_policy: str) -> None:
        self._policy = unpinned_policy
        self._versions: dict[str, list[Plugin]] = {}
        self._locked: dict[str, Plugin] = {}
        self._reported: set[tuple[str, str]] = set()

    def add(
        self, name: str, files: Mapping[str, bytes], source: str | None, sign_with: "SigningKey | None"
    ) -> Plugin:
        """Put the next version of a plugin on the shelf."""
        from molecule_plugin.names import check_name

        plugin = _packed(check_name(name), files, sign_with)
        place, _, _ref = _full(source or name).partition("#")
        self._versions.setdefault(place, []).append(plugin)
        return plugin

    def download(self, call: RouteCall) -> PlatformResponse:
        """The archive of a plugin, with its digests."""
        request, name = call.request, _checked(call.name)
        source = _full(request.query.get("source") or name)
        plugin = self._found(source)
        if plugin.name != name:
            sentence = f"the source holds the plugin {plugin.name}, not {name}"
            raise invalid("source", sentence, resolved_name=plugin.name, requested_name=name)
        headers = _headers(plugin, _resolved(source, plugin))
        if headers["ETag"] in request.headers.get("If-None-Match", ""):
            return PlatformResponse(304, None, headers)
        return PlatformResponse(200, plugin.archive, headers)

    def report(self, call: RouteCall) -> PlatformResponse:
        """Hear that an agent has installed a plugin; like everything asked, it is in the log of requests."""
        body = request_bodies.read(call.request.body, _REPORT)
        source = _full(request_bodies.text(body, "source"))
        plugin = self._found(source)
        self._reported.add((call.workspace.id, plugin.name))
        recorded: JSONObject = {
            "status": "recorded",
            "plugin": plugin.name,
            "source": source,
            "resolved": _resolved(source, plugin),
            "version": plugin.version,
            "sha256": plugin.content_sha256,
            "warnings": [],
        }
        return PlatformResponse(200, recorded)

    def forget(self, call: RouteCall) -> PlatformResponse:
        """Hear that an agent has taken a plugin away."""
        name = _checked(call.name)
        if (call.workspace.id, name) not in self._reported:
            raise RequestRejected("not-found", f"{call.workspace.name} has no plugin {name}")
        self._reported.discard((call.workspace.id, name))
        return PlatformResponse(200, {"status": "uninstalled", "plugin": name, "kept": []})

    def revocations(self, call: RouteCall) -> PlatformResponse:
        """What nobody may install: nothing, here."""
        from molecule_plugin.revocations import Revocations

        listed = Revocations()
        tag = {"ETag": f'"{listed.version}"'}
        if tag["ETag"] in call.request.headers.get("If-None-Match", ""):
            return PlatformResponse(304, None, {"Content-Type": "application/json", **tag})
        return PlatformResponse(200, listed.to_json(), tag)

    def _found(self, source: str) -> Plugin:
        scheme = source.partition("://")[0]
        if scheme not in SCHEMES:
            sentence = f"plugins come from {', '.join(SCHEMES)}, not from {scheme!r}"
            raise invalid("source", sentence, available_schemes=list(SCHEMES))
        place, _, ref = source.partition("#")
        versions = self._versions.get(place)
        if not versions:
            raise _missing(source)
        if _COMMIT.fullmatch(ref):
            return self._at_commit(source, versions, ref)
        return versions[-1] if scheme == "local" else self._unpinned(source, versions[-1], ref)

    def _at_commit(self, source: str, versions: list[Plugin], ref: str) -> Plugin:
        found = next((one for one in versions if one.commit == ref), None)
        if found is None:
            raise _missing(source)
        return found

    def _unpinned(self, source: str, newest: Plugin, ref: str) -> Plugin:
        if self._policy == "deny" and not ref:
            sentence = f"{source} follows a branch: name a tag or a commit of 40 hexadecimal digits after #"
            raise RequestRejected("plugin-source-unpinned", sentence)
        return newest if self._policy == "float" else self._locked.setdefault(source, newest)


def make_tarball(files: Mapping[str, bytes]) -> bytes:
    """A gzip tar of these files, as a plugin's download has it; the names are taken as they are."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path, content in sorted(files.items()):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _packed(name: str, files: Mapping[str, bytes], sign_with: "SigningKey | None") -> Plugin:
    from molecule_plugin import archive_writer, manifest, signatures
    from molecule_plugin.digest import MANIFEST_FILE, compute_plugin_sha256

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "plugin")
        root.mkdir()
        for path, content in files.items():
            Path(root, path).parent.mkdir(parents=True, exist_ok=True)
            Path(root, path).write_bytes(content)
        if MANIFEST_FILE not in files:
            digest = compute_plugin_sha256(root)
            Path(root, MANIFEST_FILE).write_text(f"name: {name}\nversion: 0.1.0\nsha256: {digest}\n")
        signature = signatures.sign_plugin(root, [sign_with]).content() if sign_with else None
        archive = io.BytesIO()
        packed = archive_writer.write_archive(root, archive)
        values = manifest.read_manifest(root)
    return Plugin(
        name=values.name if values else name,
        version=values.version if values else "0.0.0",
        archive=archive.getvalue(),
        archive_sha256=hashlib.sha256(archive.getvalue()).hexdigest(),
        content_sha256=packed.content_sha256,
        signature=signature,
    )


def _checked(name: str) -> str:
    from molecule_plugin.errors import PluginNameError
    from molecule_plugin.names import check_name

    try:
        return check_name(name)
    except PluginNameError as problem:
        raise invalid("name", str(problem)) from problem


def _full(source: str) -> str:
    """A source with its scheme; a bare name is one of the platform's own plugins."""
    return source if "://" in source else f"local://{source}"


def _missing(source: str) -> RequestRejected:
    scheme, _, name = source.partition("://")
    if scheme == "local":
        return RequestRejected(
            "not-found", f"the platform has no plugin {name}: `GET /plugins` lists those it has"
        )
    return RequestRejected("not-found", f"there is no plugin at {source}")


def _resolved(source: str, plugin: Plugin) -> str:
    place, _, _ref = source.partition("#")
    return source if source.startswith("local://") else f"{place}#{plugin.commit}"


def _headers(plugin: Plugin, resolved: str) -> dict[str, str]:
    headers = {
        "Content-Type": "application/gzip",
        "Content-Disposition": f'attachment; filename="{plugin.name}-{plugin.version}.tar.gz"',
        "X-Plugin-Name": plugin.name,
        "X-Plugin-Source": resolved,
        "X-Plugin-Version": plugin.version,
        "X-Plugin-Sha256": plugin.content_sha256,
        "X-Plugin-Archive-Sha256": plugin.archive_sha256,
        "ETag": f'"{plugin.archive_sha256}"',
    }
    if plugin.signature is not None:
        from molecule_plugin.keys import to_base64url

        headers["X-Plugin-Signature"] = to_base64url(plugin.signature)
    return headers

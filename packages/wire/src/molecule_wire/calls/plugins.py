"""Calls of the plugin registry: fetch a plugin's archive, report what is installed, ask what was revoked."""

from typing import NamedTuple

from molecule_wire.calls import failures, values

DOWNLOAD_TIMEOUT = 60.0


class Delivered(NamedTuple):
    """What the platform says of an archive it sends; empty texts where it says nothing."""

    source: str = ""
    version: str = ""
    content_sha256: str = ""
    archive_sha256: str = ""
    signature: str = ""


HEADERS = {
    "source": "X-Plugin-Source",
    "version": "X-Plugin-Version",
    "content_sha256": "X-Plugin-Sha256",
    "archive_sha256": "X-Plugin-Archive-Sha256",
    "signature": "X-Plugin-Signature",
}


def download(workspace_id: str, name: str, source: str | None = None) -> values.Request:
    """Ask for the archive of a plugin; without a source it is the platform's own of that name."""
    params = {"source": source} if source else {}
    return values.Request(
        "GET", f"{_plugin(workspace_id, name)}/download", params=params, timeout=DOWNLOAD_TIMEOUT
    )


def read_delivered(reply: values.Reply) -> Delivered:
    """Read what the answer to `download` says of itself; its body is an archive, not JSON."""
    if not reply.ok:
        raise failures.failure(reply)
    return Delivered(**{name: reply.header(header) for name, header in HEADERS.items()})


def report(workspace_id: str, source: str) -> values.Request:
    """Tell the platform that a plugin is installed."""
    return values.Request("POST", _plugins(workspace_id), json={"source": source})


def forget(workspace_id: str, name: str) -> values.Request:
    """Tell the platform that a plugin is no longer installed."""
    return values.Request("DELETE", _plugin(workspace_id, name))


def revocations() -> values.Request:
    """Ask which plugins, versions and keys were revoked; `molecule_plugin.revocations` reads the answer."""
    return values.Request("GET", "/plugins/revocations")


def _plugins(workspace_id: str) -> str:
    return f"/workspaces/{values.segment(workspace_id)}/plugins"


def _plugin(workspace_id: str, name: str) -> str:
    return f"{_plugins(workspace_id)}/{values.segment(name)}"

"""`doctor`: what stands between this machine and a working agent."""

import os
import stat
from collections.abc import Callable
from urllib.parse import urlsplit

from molecule_agent import errors
from molecule_agent.client import RemoteAgentClient
from molecule_wire.calls import inbox, platform

MAX_SKEW_SECONDS = 30.0
"""Seconds by which two clocks may differ; beyond it the platform's assertions would be refused."""


class CheckFailed(Exception):
    """A check failed; the text says what to do."""


def doctor(client: RemoteAgentClient, args: object) -> int:
    """Make every check and print its outcome; returns the exit code."""
    return max([_report(client, name, check) for name, check in CHECKS])


def _report(client: RemoteAgentClient, name: str, check: Callable[[RemoteAgentClient], str]) -> int:
    try:
        print(f"ok    {name}: {check(client)}")
    except (CheckFailed, errors.MoleculeError, OSError) as error:  # what `requests` raises is an OSError
        print(f"FAIL  {name}: {' '.join(str(error).split())}")
        return 1
    return 0


def _permissions(client: RemoteAgentClient) -> str:
    folder = client.token_file.parent
    if os.name != "posix" or not folder.exists():
        return "nothing is kept here yet" if os.name == "posix" else "left to the system"
    files = [path for path in folder.iterdir() if path.is_file() and path.name.startswith(".")]
    for path in [folder, *files]:
        if path.lstat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise CheckFailed(f"{path} is open to other users; run chmod go-rwx {path}")
    return f"{folder} is yours alone"


def _reachability(client: RemoteAgentClient) -> str:
    client._perform(platform.health(), platform.read_time)
    return f"{client.platform_url} answers"


def _clock(client: RemoteAgentClient) -> str:
    there = client._perform(platform.health(), platform.read_time)
    if there is None:
        return "the platform does not say what time it is"
    ahead = client._clock.time() - there
    if abs(ahead) > MAX_SKEW_SECONDS:
        direction = "ahead of" if ahead > 0 else "behind"
        raise CheckFailed(f"this machine is {abs(ahead):.0f} s {direction} the platform; set its clock")
    return f"within {MAX_SKEW_SECONDS:g} s of the platform"


def _token(client: RemoteAgentClient) -> str:
    if not client.load_token():
        raise CheckFailed(
            f"there is none in {client.token_file}; run connect, or enrol with a token from an administrator"
            f" (molecule workspace enrol {client.workspace_id})"
        )
    return f"taken; this workspace is {client.whoami().get('status', 'unknown')}"


def _delivery(client: RemoteAgentClient) -> str:
    row = client.whoami()
    if row.get("delivery_mode") == "push":
        url = str(row.get("url") or "")
        if urlsplit(url).scheme not in ("http", "https"):
            raise CheckFailed(
                "the platform is to call this agent but knows no URL; give connect --reported-url"
            )
        return f"push to {url}"
    waiting = client._perform(inbox.peek(client.workspace_id, limit=1), inbox.read_peeked)
    return f"by fetching; {waiting.pending} waiting, {waiting.leased} in hand, {waiting.dead} dead"


CHECKS: tuple[tuple[str, Callable[[RemoteAgentClient], str]], ...] = (
    ("permissions", _permissions),
    ("platform", _reachability),
    ("clock", _clock),
    ("token", _token),
    ("delivery", _delivery),
)

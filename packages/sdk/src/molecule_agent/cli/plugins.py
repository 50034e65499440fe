"""The commands about plugins: install, uninstall, list, and the digest of a directory."""

import argparse
import sys
from pathlib import Path

from molecule_agent.cli import flags
from molecule_agent.client import RemoteAgentClient

SWITCHES = {
    "--no-setup": "do not run its setup.sh",
    "--upgrade": "take another content than plugins.lock pins",
    "--frozen": "install only what plugins.lock pins",
    "--allow-signer-change": "take a version that its first signer did not sign",
}


def add_install_flags(command: argparse.ArgumentParser) -> None:
    """Add what `install` understands beside the connection."""
    command.add_argument("--source", help="where it comes from, as github://owner/repo#ref; default local")
    command.add_argument("--sha256", help="the digest that it must have")
    for switch, meaning in SWITCHES.items():
        command.add_argument(switch, action="store_true", help=meaning)


def install(client: RemoteAgentClient, args: object) -> None:
    """Install a plugin; print where it is. Another content than the pinned one needs `--upgrade`."""
    from molecule_agent.plugins import install

    wish = install.PluginInstallRequest(
        flags.text(args, "name"),
        source=flags.text(args, "source") or None,
        run_setup=flags.plain(args, "no_setup") is not True,
        sha256=flags.text(args, "sha256") or None,
        upgrade=flags.plain(args, "upgrade") is True,
        frozen=flags.plain(args, "frozen") is True,
        allow_signer_change=flags.plain(args, "allow_signer_change") is True,
    )
    print(install.install(client, wish, report=True))


def uninstall(client: RemoteAgentClient, args: object) -> None:
    """Remove a plugin."""
    print("uninstalled" if client.uninstall_plugin(flags.text(args, "name")) else "not installed")


def listing(client: RemoteAgentClient, args: object) -> int:
    """Print what is installed and what is wrong with it; returns 1 when something is."""
    problems = client.verify_plugins()
    for plugin in client.list_plugins():
        print(f"{plugin.name}  {plugin.version}  {plugin.resolved or plugin.source}")
        for problem in problems.get(plugin.name, []):
            print(f"  {problem}")
    return int(any(problems.values()))


def verify_sha256(directory: str) -> int:
    """Print the digest of a plugin's directory; returns the exit code."""
    from molecule_plugin.digest import compute_plugin_sha256
    from molecule_plugin.errors import PluginError

    if not Path(directory).is_dir():
        print(f"error: {directory} is not a directory", file=sys.stderr)
        return 1
    try:
        print(f"Computed SHA256: {compute_plugin_sha256(directory)}")
    except (PluginError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0

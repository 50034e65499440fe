"""The parser and its commands."""

import argparse
import json
import logging
import sys
from collections.abc import Sequence

import molecule_wire
from molecule_agent.cli import commands, connect, doctor, flags, plugins, title

SHORT: dict[str, commands.Command] = {
    "whoami": commands.whoami,
    "peers": commands.peers,
    "call": commands.call,
    "inbox": commands.inbox,
    "reply": commands.reply,
    "notify": commands.notify,
    "delegate": commands.delegate,
    "install": plugins.install,
    "uninstall": plugins.uninstall,
    "plugins": plugins.listing,
    "enrol": commands.enrol,
    "doctor": doctor.doctor,
}
"""The commands that ask one thing and end."""


class JSONFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        line = {"time": self.formatTime(record), "level": record.levelname, "message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    args = parser().parse_args(argv)
    _set_up_logging(args)
    for secret in ("token", "enrolment_token"):
        title.hide(flags.text(args, secret))
    if args.command == "connect":
        return connect.connect_command(args)
    if args.command == "verify-sha256":
        return plugins.verify_sha256(args.directory)
    return commands.run(SHORT[args.command], args)


def parser() -> argparse.ArgumentParser:
    """Make the parser; the environment is read now."""
    whole = argparse.ArgumentParser("molecule-agent", description="Run a program as a Molecule agent.")
    whole.add_argument("--version", action="version", version=molecule_wire.__version__)
    kinds = whole.add_subparsers(dest="command", required=True)
    flags.add(_command(kinds, "connect", "answer messages with a function of yours"), flags.CONNECT)
    _command(kinds, "whoami", "show this workspace")
    _json(_command(kinds, "peers", "list the workspaces this one may call"))
    calling = _command(
        kinds, "call", "send a peer a text", peer="the peer's name, path or id", text="what to say"
    )
    calling.add_argument("--wait", dest="wait_for_answer", action="store_true", help="wait for the answer")
    _json(_command(kinds, "inbox", "list what waits for this agent"))
    _command(kinds, "reply", "answer a waiting message", message="the message's id", text="what to say")
    _command(kinds, "notify", "tell the people of the organisation something", text="what to say")
    _command(
        kinds,
        "delegate",
        "ask a peer for a piece of work",
        peer="the peer's name, path or id",
        task="what to do",
    )
    plugins.add_install_flags(_command(kinds, "install", "install a plugin", name="the plugin's name"))
    _command(kinds, "uninstall", "remove a plugin", name="the plugin's name")
    _command(kinds, "plugins", "list the installed plugins and what is wrong with them")
    digest = kinds.add_parser("verify-sha256", help="print the digest of a plugin's directory")
    digest.add_argument("directory", help="the directory that holds plugin.yaml")
    _command(kinds, "enrol", "exchange an enrolment token for a token of this workspace")
    _command(kinds, "doctor", "check whether this machine can be the agent")
    return whole


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON")


def _command(
    kinds: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, about: str, /, **arguments: str
) -> argparse.ArgumentParser:
    command = kinds.add_parser(name, help=about, description=about)
    for argument, meaning in arguments.items():
        command.add_argument(argument, help=meaning)
    flags.add(command, flags.CONNECTION)
    flags.add_switches(command)
    return command


def _set_up_logging(args: argparse.Namespace) -> None:
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JSONFormatter() if flags.text(args, "log_format") == "json" else plain)
    log = logging.getLogger("molecule_agent")
    log.handlers[:] = [handler]
    log.setLevel(logging.DEBUG if flags.plain(args, "verbose") is True else logging.INFO)
    log.propagate = False

"""The parser and its commands."""

import argparse
import json
import logging
import sys
from collections.abc import Sequence

import molecule_wire
from molecule_agent.cli import commands, connect, flags

SHORT = {"whoami": commands.whoami, "peers": commands.peers, "call": commands.call}


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
    if args.command == "connect":
        return connect.connect_command(args)
    return commands.run(SHORT[args.command], args)


def parser() -> argparse.ArgumentParser:
    """Make the parser; the environment is read now."""
    whole = argparse.ArgumentParser("molecule-agent", description="Run a program as a Molecule agent.")
    whole.add_argument("--version", action="version", version=molecule_wire.__version__)
    kinds = whole.add_subparsers(dest="command", required=True)
    flags.add(_command(kinds, "connect", "answer messages with a function of yours"), flags.CONNECT)
    _command(kinds, "whoami", "show this workspace")
    listing = _command(kinds, "peers", "list the workspaces this one may call")
    listing.add_argument("--json", action="store_true", help="print JSON")
    calling = _command(kinds, "call", "send a peer a text")
    calling.add_argument("peer", help="the peer's id")
    calling.add_argument("text", help="what to say")
    calling.add_argument("--wait", dest="wait_for_answer", action="store_true", help="wait for the answer")
    return whole


def _command(
    kinds: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, about: str
) -> argparse.ArgumentParser:
    command = kinds.add_parser(name, help=about, description=about)
    flags.add(command, flags.CONNECTION)
    flags.add_switches(command)
    return command


def _set_up_logging(args: argparse.Namespace) -> None:
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JSONFormatter() if args.log_format == "json" else plain)
    log = logging.getLogger("molecule_agent")
    log.handlers[:] = [handler]
    log.setLevel(logging.DEBUG if args.verbose else logging.INFO)
    log.propagate = False

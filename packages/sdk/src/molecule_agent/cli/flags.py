"""The flags, each of which has an environment variable; both are read when the command line is parsed."""

import argparse
import os
from dataclasses import dataclass
from typing import TypeAlias

from molecule_agent.inbound import DEFAULT_POLL_INTERVAL

Plain: TypeAlias = str | int | float | bool | None

DELIVERIES = ("auto", "inbox", "poll", "push")
LOG_FORMATS = ("text", "json")
DEFAULT_WAIT = 25.0


class UsageError(Exception):
    """A setting is missing or wrong; the text names the flag and its variable."""


@dataclass(frozen=True)
class Flag:
    """One flag: its name, its variables in the order they are looked at, and what it means."""

    name: str
    variables: tuple[str, ...]
    help: str
    choices: tuple[str, ...] = ()
    number: bool = False
    default: str | None = None

    @property
    def key(self) -> str:
        """The attribute of the parsed arguments."""
        return self.name.lstrip("-").replace("-", "_")

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add the flag to a parser, with its variable as the default."""
        found = next((value for name in self.variables if (value := os.environ.get(name))), self.default)
        named = f"{self.help} [{', '.join(self.variables)}]"
        kind = float if self.number else str
        parser.add_argument(self.name, default=found, help=named, type=kind, choices=self.choices or None)
        if self.choices and found is not None and found not in self.choices:
            parser.error(f"{self.variables[0]}={found!r}: choose from {', '.join(self.choices)}")


CONNECTION = (
    Flag("--platform-url", ("MOLECULE_PLATFORM_URL", "PLATFORM_URL"), "the platform's address"),
    Flag("--workspace-id", ("MOLECULE_WORKSPACE_ID", "WORKSPACE_ID"), "which workspace this agent is"),
    Flag("--token", ("MOLECULE_WORKSPACE_TOKEN",), "the workspace's token; it is saved for the next time"),
    Flag("--enrolment-token", ("MOLECULE_ENROLMENT_TOKEN",), "a single-use token to enrol with"),
    Flag("--org-id", ("MOLECULE_ORG_ID",), "the organisation, where the platform asks for it"),
    Flag("--origin", ("MOLECULE_ORIGIN",), "the Origin header to send"),
    Flag("--token-dir", ("MOLECULE_TOKEN_DIR",), "where the token is kept"),
    Flag("--log-format", ("MOLECULE_LOG_FORMAT",), "how to log", choices=LOG_FORMATS, default="text"),
)
CONNECT = (
    Flag("--handler", ("MOLECULE_HANDLER",), "the function that answers messages, as module:function"),
    Flag("--agent-name", ("MOLECULE_AGENT_NAME",), "the name on the agent's card"),
    Flag("--reported-url", ("MOLECULE_REPORTED_URL",), "where the platform can reach this agent"),
    Flag(
        "--poll-interval",
        ("MOLECULE_POLL_INTERVAL",),
        "seconds between two polls",
        number=True,
        default=str(DEFAULT_POLL_INTERVAL),
    ),
    Flag("--cursor-file", ("MOLECULE_CURSOR_FILE",), "where polling keeps its place"),
    Flag("--delivery", ("MOLECULE_DELIVERY",), "how messages come in", choices=DELIVERIES, default="auto"),
    Flag("--wait", ("MOLECULE_WAIT",), "seconds the platform holds a request for messages", number=True),
)


def add(parser: argparse.ArgumentParser, flags: tuple[Flag, ...]) -> None:
    """Add flags to a parser."""
    for flag in flags:
        flag.add_to(parser)


def add_switches(parser: argparse.ArgumentParser) -> None:
    """Add the flags that need no value."""
    parser.add_argument("--no-origin", action="store_true", help="send no Origin header")
    parser.add_argument("--verbose", action="store_true", help="log more")


def plain(args: object, name: str) -> Plain:
    """A setting, or `None`; anything that is no plain value counts as not given."""
    value: object = getattr(args, name, None)
    return value if isinstance(value, str | int | float | bool) else None


def text(args: object, name: str) -> str:
    """A setting as text; `""` when it is not given."""
    value = plain(args, name)
    return value if isinstance(value, str) else ""


def number(args: object, name: str, default: float) -> float:
    """A setting as a number."""
    value = plain(args, name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default


def required(args: object, flag: Flag) -> str:
    """A setting that must be there."""
    value = text(args, flag.key)
    if not value:
        raise UsageError(f"{flag.name} is missing: give it, or set {' or '.join(flag.variables)}")
    return value


def by_name(name: str) -> Flag:
    """The flag of this name."""
    return next(flag for flag in (*CONNECTION, *CONNECT) if flag.name == name)

"""The parser and its commands."""

import argparse
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import molecule_plugin
from molecule_plugin.cli import init, integrity, lock, validate
from molecule_plugin.errors import PluginError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0 fine, 1 not fine, 2 wrong usage."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no ✓ still gets the sentence
    args = parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = args.run
    try:
        return run(args)
    except (PluginError, OSError, ValueError) as problem:
        print(f"error: {' '.join(str(problem).split())}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """Make the parser."""
    whole = argparse.ArgumentParser("molecule-plugin", description="Write, check, sign and pack plugins.")
    whole.add_argument("--version", action="version", version=molecule_plugin.__version__)
    kinds = whole.add_subparsers(dest="command", required=True, metavar="command")
    for add in (_validate, _init, _hash, _keygen, _sign, _verify, _pack, _lock):
        add(kinds)
    return whole


_Kinds: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _command(
    kinds: _Kinds, name: str, run: Callable[[argparse.Namespace], int], about: str
) -> argparse.ArgumentParser:
    command = kinds.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
    command.set_defaults(run=run)
    return command


def _validate(kinds: _Kinds) -> None:
    command = _command(kinds, "validate", validate.validate, "say what is wrong with plugins and templates")
    command.add_argument(
        "paths",
        nargs="+",
        metavar="[plugin|workspace|org|channel] path",
        help="what to check; the kind comes first and is plugin when it is left out",
    )
    command.add_argument("-q", "--quiet", action="store_true", help="say nothing about what is valid")
    command.add_argument("--strict", action="store_true", help="let warnings count")
    command.add_argument("--format", choices=("text", "json"), default="text", help="how to print")
    command.add_argument(
        "--json", action="store_const", dest="format", const="json", help="the same as --format json"
    )


def _init(kinds: _Kinds) -> None:
    command = _command(kinds, "init", init.init, "write a new plugin into an empty directory")
    command.add_argument("dir", type=Path)
    command.add_argument("--name", help="the plugin's name; the directory's when it is left out")
    command.add_argument(
        "--runtimes", default="claude_code", help="the runtimes to write an adaptor for, with commas"
    )
    command.add_argument("--skill", default="example-skill", help="the name of its first skill")


def _hash(kinds: _Kinds) -> None:
    command = _command(kinds, "hash", integrity.hash_command, "print the digest of a plugin's content")
    command.add_argument("dir", type=Path)
    command.add_argument("--write", action="store_true", help="set sha256 in plugin.yaml too")
    command.add_argument("--legacy", action="store_true", help="print the two older forms too")


def _keygen(kinds: _Kinds) -> None:
    command = _command(kinds, "keygen", integrity.keygen, "make a key to sign with")
    command.add_argument("--out", type=Path, help="where to put the secret key; printed when it is left out")


def _sign(kinds: _Kinds) -> None:
    command = _command(kinds, "sign", integrity.sign, "set sha256 in plugin.yaml and write plugin.sig")
    command.add_argument("dir", type=Path)
    command.add_argument("--key", type=Path, action="append", required=True, help="a file with a secret key")


def _verify(kinds: _Kinds) -> None:
    command = _command(kinds, "verify", integrity.verify, "check a plugin's digest, signature and lock")
    command.add_argument("path", type=Path, help="a plugin's directory, or its archive")
    command.add_argument(
        "--key", action="append", default=[], help="a public key to trust, besides ~/.molecule/trusted_keys"
    )
    command.add_argument("--require-signature", action="store_true", help="refuse without a trusted one")
    command.add_argument("--lock", type=Path, help="a plugins.lock that must name exactly this plugin")
    command.add_argument("--revocations", type=Path, help="a file with what was revoked")


def _pack(kinds: _Kinds) -> None:
    command = _command(
        kinds, "pack", integrity.pack, "write a plugin's archive; the same files, the same bytes"
    )
    command.add_argument("dir", type=Path)
    command.add_argument("-o", "--output", type=Path, help="the archive; <name>-<version>.tar.gz by default")


def _lock(kinds: _Kinds) -> None:
    command = _command(kinds, "lock", lock.lock_command, "pin plugins in plugins.lock, or check the pins")
    command.add_argument("paths", nargs="+", type=Path, help="an org.yaml, or directories of plugins")
    command.add_argument(
        "--update", action="append", default=[], metavar="name", help="take what is there now"
    )
    command.add_argument("--check", action="store_true", help="write nothing; fail when a pin is not met")

"""A command that talks to the platform: its common options, its client, and its two ways to answer."""

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import RenderableType

from molecule_platform.cli import client, screen, target

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the platform.",
        show_default="MOLECULE_DATA_DIR, else ~/.molecule/platform",
    ),
]
_Url = Annotated[
    str | None,
    typer.Option(
        help="Address of the platform.",
        show_default="MOLECULE_PLATFORM_URL, else port PORT (8080) of this machine",
    ),
]
_Token = Annotated[
    str | None,
    typer.Option(
        help="Credential to use.",
        show_default="MOLECULE_ADMIN_TOKEN, ADMIN_TOKEN, else admin.token in the folder",
    ),
]
_COMMON: tuple[tuple[str, Any, Any], ...] = (
    ("url", _Url, None),
    ("token", _Token, None),
    ("data_dir", DataDir, None),
    ("as_json", JsonFlag, False),
)


@dataclass(frozen=True)
class Session:
    """What a command works with."""

    target: target.Target
    client: client.Client
    as_json: bool

    def answer(self, value: object, *things: RenderableType | Callable[[], RenderableType]) -> None:
        """Give the result: the value to a machine; to a person the things, made only when they are shown."""
        if self.as_json:
            screen.show_json(value)
            return
        for thing in things:
            screen.show(thing() if callable(thing) else thing)


def command(group: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a command whose function gets a `Session` first; its user gets the common options."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        def run(
            *, url: str | None, token: str | None, data_dir: Path | None, as_json: bool, **own: Any
        ) -> None:
            found = target.resolve(url, token, data_dir, os.environ)
            function(Session(found, client.Client(found), as_json), **own)

        _describe(run, function)
        group.command(name)(run)
        return function

    return add


def _describe(run: Callable[..., None], function: Callable[..., None]) -> None:
    """Let `run` look as if it had the parameters of the function and the common options."""
    own = list(inspect.signature(function).parameters.values())[1:]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in _COMMON
    ]
    described = cast(Any, run)
    described.__name__ = function.__name__
    described.__doc__ = function.__doc__
    described.__signature__ = inspect.Signature([*own, *common])
    described.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *common]}

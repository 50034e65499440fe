"""A command that talks to the platform: its common options, its client, and its two ways to answer."""

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import RenderableType

from molecule_platform.cli import client, connection, output

_PANEL = "Which platform"


def _folder(panel: str | None) -> Any:
    return typer.Option(
        rich_help_panel=panel,
        help="Folder of the platform.",
        show_default="MOLECULE_DATA_DIR, else ~/.molecule/platform",
    )


JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]
DataDir = Annotated[Path | None, _folder(None)]
_DataDir = Annotated[Path | None, _folder(_PANEL)]
_Url = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_PANEL,
        help="Address of the platform.",
        show_default="MOLECULE_PLATFORM_URL, else port PORT (8080) of this machine",
    ),
]
_Token = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_PANEL,
        help="Credential to use.",
        show_default="MOLECULE_ADMIN_TOKEN, ADMIN_TOKEN, else admin.token in the folder",
    ),
]
_Org = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_PANEL,
        metavar="ORG",
        help="Act in another organisation, by its id or slug; for the administrator.",
        show_default="the one of the credential",
    ),
]
# The name of a parameter, its annotation, its default.
Option = tuple[str, Any, Any]

_COMMON: tuple[Option, ...] = (
    ("url", _Url, None),
    ("token", _Token, None),
    ("org", _Org, None),
    ("data_dir", _DataDir, None),
    ("as_json", JsonFlag, False),
)


@dataclass(frozen=True)
class ApiSession:
    """What a command works with."""

    target: connection.Target
    client: client.Client
    as_json: bool

    def answer(self, value: object, *things: RenderableType | Callable[[], RenderableType]) -> None:
        """Give the result: the value to a machine; to a person the things, made only when they are shown."""
        if self.as_json:
            output.show_json(value)
            return
        for thing in things:
            output.show(thing() if callable(thing) else thing)

    def tell(self, value: object, thing: Callable[[], RenderableType]) -> None:
        """Give one of many results as it comes: to a machine as one line."""
        if self.as_json:
            output.show_json(value, indent=None)
        else:
            output.show(thing())

    def remark(self, sentence: str) -> None:
        """Say something beside the result, on standard error."""
        output.warning(sentence, as_json=self.as_json)

    def hint(self, words: str) -> str:
        """A command to type next, with the flags that were given to this one."""
        return self.target.command(words)


def command(
    group: typer.Typer, name: str, *, serves: tuple[str, ...], options: tuple[Option, ...] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a command whose function gets a `Session` first; its user gets the common options.

    `serves` are the rows of the route table that it uses, beside looking up a workspace: a test holds the
    program to the table. `options` are some that several commands share; the function takes them as keywords.
    """

    def add(function: Callable[..., None]) -> Callable[..., None]:
        def run(
            *,
            url: str | None,
            token: str | None,
            org: str | None,
            data_dir: Path | None,
            as_json: bool,
            **own: Any,
        ) -> None:
            found = connection.resolve(url, token, data_dir, os.environ, org)
            remark = functools.partial(output.warning, as_json=as_json)
            function(ApiSession(found, client.Client(found, remark), as_json), **own)

        _describe(run, function, options)
        cast(Any, run).serves = serves
        group.command(name)(run)
        return function

    return add


def _describe(run: Callable[..., None], function: Callable[..., None], options: tuple[Option, ...]) -> None:
    """Let `run` look as if it had the parameters of the function, the shared and the common options."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    own = [parameter for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in (*options, *_COMMON)
    ]
    described = cast(Any, run)
    described.__name__ = function.__name__
    described.__doc__ = function.__doc__
    described.__signature__ = inspect.Signature([*own, *common])
    described.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *common]}

"""One setting: a row of the table."""

from dataclasses import dataclass

from molecule_platform.settings import parsers


@dataclass(frozen=True)
class Setting:
    """One row. `name` is the environment variable and the key in molecule.toml; None means not given."""

    name: str
    attribute: str
    parse: parsers.Parser
    default: str | None
    sentence: str
    secret: bool = False

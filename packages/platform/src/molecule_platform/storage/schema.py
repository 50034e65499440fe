"""The schema's versions: migrations bring a database up to date, and never back."""

import functools
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

MIGRATIONS = Path(__file__).parent / "migrations"


class SchemaTooNew(Exception):
    """The database was written by a newer version: start that one, or use another data directory."""

    def __init__(self, revision: str) -> None:
        super().__init__(
            f"the database has schema {revision}, which this version of Molecule does not know: "
            "start the newer version that wrote it, or point MOLECULE_DATA_DIR or DATABASE_URL elsewhere"
        )


def upgrade(connection: Connection) -> None:
    """Run the migrations that are missing."""
    known = _revisions()
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision == known[0]:
        return
    if revision is not None and revision not in known:
        raise SchemaTooNew(revision)
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


@functools.cache
def _revisions() -> tuple[str, ...]:
    """The revisions that this version knows, newest first; reading them is most of an opening."""
    return tuple(script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    return config

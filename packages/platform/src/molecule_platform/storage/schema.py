"""The schema's versions: migrations bring a database up to date, and never back."""

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
    config = _config()
    scripts = ScriptDirectory.from_config(config)
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision == scripts.get_current_head():
        return
    if revision is not None and revision not in {script.revision for script in scripts.walk_revisions()}:
        raise SchemaTooNew(revision)
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    return config

"""The schema's versions: an empty database is made whole at once, an older one by migrations; never back."""

import re
from pathlib import Path

from sqlalchemy import Connection, column, inspect, select, table, text

from molecule_platform.storage import counters, tables

MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION = table("alembic_version", column("version_num"))


class UnknownSchema(Exception):
    """The database has a schema that this version cannot read."""

    def __init__(self, revision: str) -> None:
        if re.fullmatch("00[01][0-9]", revision):
            super().__init__(
                f"the database has schema {revision}, written by a checkout from before the first release; "
                "it cannot be upgraded: point MOLECULE_DATA_DIR or DATABASE_URL to an empty place"
            )
        else:
            super().__init__(
                f"the database has schema {revision}, which this version of Molecule does not know: "
                "start the newer version that wrote it, or point MOLECULE_DATA_DIR or DATABASE_URL elsewhere"
            )


def upgrade(connection: Connection) -> None:
    """Bring a database to the newest schema."""
    known = revisions()
    present = inspect(connection).get_table_names()
    revision = connection.scalar(select(_VERSION.c.version_num)) if _VERSION.name in present else None
    if revision == known[-1]:
        return
    if revision is not None and revision not in known:
        raise UnknownSchema(revision)
    if revision is None and not present:
        _create(connection, known[-1])
    else:
        migrate(connection)


def revisions() -> list[str]:
    """Return the known revisions, oldest first. A revision is the name of its migration's file."""
    return sorted(path.stem for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))


def migrate(connection: Connection, revision: str = "head") -> None:
    """Run the migrations that are missing, up to a revision."""
    # Imported here: a new database need not wait 0.2 s for Alembic.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _create(connection: Connection, revision: str) -> None:
    """What the migrations leave of an empty database, in one step; a test holds the two equal."""
    tables.metadata.create_all(connection)
    connection.execute(tables.counters.insert(), [{"name": name, "value": 0} for name in counters.NAMES])
    connection.execute(
        text(
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
            "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
    )
    connection.execute(_VERSION.insert(), {"version_num": revision})

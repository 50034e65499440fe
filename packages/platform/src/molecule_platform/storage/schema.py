"""The schema's versions: an empty database is made whole at once, an older one by migrations; never back."""

from pathlib import Path

from sqlalchemy import Connection, column, inspect, select, table, text

from molecule_platform.storage import counters, tables

MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION = table("alembic_version", column("version_num"))


class SchemaTooNew(Exception):
    """The database was written by a newer version: start that one, or use another data directory."""

    def __init__(self, revision: str) -> None:
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
        raise SchemaTooNew(revision)
    if revision is None and not present:
        _create(connection, known[-1])
    else:
        migrate(connection)


def revisions() -> list[str]:
    """The revisions that this version knows, oldest first: each migration's file begins with its own."""
    files = (MIGRATIONS / "versions").glob("[0-9]*.py")
    return sorted(path.name.partition("_")[0] for path in files)


def migrate(connection: Connection, revision: str = "head") -> None:
    """Run the migrations that are missing, up to a revision."""
    # Imported here: a new database need not wait 0.2 s for Alembic, and 0.5 s for eleven migrations.
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

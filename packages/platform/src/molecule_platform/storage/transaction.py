"""One transaction, as services see it: the nouns, over one connection."""

from sqlalchemy import Connection

from molecule_platform.storage.activity import SqlActivityLog
from molecule_platform.storage.audit_log import SqlAudit
from molecule_platform.storage.delegations import SqlDelegations
from molecule_platform.storage.events import SqlEventLog
from molecule_platform.storage.grants import SqlGrants
from molecule_platform.storage.idempotency import SqlAttempts
from molecule_platform.storage.loops import SqlLoops
from molecule_platform.storage.mailbox import SqlMailbox
from molecule_platform.storage.maintenance import SqlUpkeep
from molecule_platform.storage.people import SqlPeople
from molecule_platform.storage.plugins import SqlPlugins
from molecule_platform.storage.presence import SqlPresence
from molecule_platform.storage.push import SqlOutbox, SqlPushConfigs
from molecule_platform.storage.retention import SqlRetention
from molecule_platform.storage.secrets import SqlSecrets
from molecule_platform.storage.signing import SqlSigningKeys
from molecule_platform.storage.tasks import SqlTasks
from molecule_platform.storage.tokens import SqlTokens
from molecule_platform.storage.workspaces import SqlWorkspaces


class SqlTransaction:
    """See `ports.storage.Transaction`. Those that are committed together share one, one after another."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.signals: list[str] = []
        self.workspaces = SqlWorkspaces(connection)
        self.tokens = SqlTokens(connection)
        self.people = SqlPeople(connection)
        self.mailbox = SqlMailbox(connection)
        self.tasks = SqlTasks(connection)
        self.push_configs = SqlPushConfigs(connection)
        self.outbox = SqlOutbox(connection)
        self.delegations = SqlDelegations(connection)
        self.activity = SqlActivityLog(connection)
        self.events = SqlEventLog(connection)
        self.secrets = SqlSecrets(connection)
        self.plugins = SqlPlugins(connection)
        self.audit = SqlAudit(connection)
        self.retention = SqlRetention(connection)
        self.signing = SqlSigningKeys(connection)
        self.grants = SqlGrants(connection)
        self.presence = SqlPresence(connection)
        self.loops = SqlLoops(connection)
        self.attempts = SqlAttempts(connection)
        self.upkeep = SqlUpkeep(connection)

    def signal(self, subject: str) -> None:
        """Ring that bell after the commit."""
        self.signals.append(subject)

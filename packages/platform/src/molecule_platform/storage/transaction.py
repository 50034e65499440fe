"""One transaction, as services see it: the nouns, over one connection."""

from sqlalchemy import Connection

from molecule_platform.storage.activity import SqlActivityLog
from molecule_platform.storage.audit import SqlAudit
from molecule_platform.storage.delegations import SqlDelegations
from molecule_platform.storage.events import SqlEventLog
from molecule_platform.storage.grants import SqlGrants
from molecule_platform.storage.loops import SqlLoops
from molecule_platform.storage.mailbox import SqlMailbox
from molecule_platform.storage.people import SqlPeople
from molecule_platform.storage.plugins import SqlPlugins
from molecule_platform.storage.presence import SqlPresence
from molecule_platform.storage.push import SqlOutbox, SqlPushConfigs
from molecule_platform.storage.repeats import SqlAttempts
from molecule_platform.storage.retention import SqlRetention
from molecule_platform.storage.secrets import SqlSecrets
from molecule_platform.storage.signing import SqlSigningKeys
from molecule_platform.storage.tasks import SqlTasks
from molecule_platform.storage.tokens import SqlTokens
from molecule_platform.storage.upkeep import SqlUpkeep
from molecule_platform.storage.workspaces import SqlWorkspaces


class SqlTransaction:
    """See `ports.storage.Transaction`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.signals: list[str] = []

    @property
    def workspaces(self) -> SqlWorkspaces:
        """The org tree."""
        return SqlWorkspaces(self._connection)

    @property
    def tokens(self) -> SqlTokens:
        """Credentials."""
        return SqlTokens(self._connection)

    @property
    def people(self) -> SqlPeople:
        """Organisations, users, sessions and login codes."""
        return SqlPeople(self._connection)

    @property
    def mailbox(self) -> SqlMailbox:
        """Messages and their leases."""
        return SqlMailbox(self._connection)

    @property
    def tasks(self) -> SqlTasks:
        """Tasks and their events."""
        return SqlTasks(self._connection)

    @property
    def push_configs(self) -> SqlPushConfigs:
        """Who is told of which tasks."""
        return SqlPushConfigs(self._connection)

    @property
    def outbox(self) -> SqlOutbox:
        """What is still to be told."""
        return SqlOutbox(self._connection)

    @property
    def delegations(self) -> SqlDelegations:
        """Work that one asks of another."""
        return SqlDelegations(self._connection)

    @property
    def activity(self) -> SqlActivityLog:
        """What each workspace did and received."""
        return SqlActivityLog(self._connection)

    @property
    def events(self) -> SqlEventLog:
        """What happened, in order."""
        return SqlEventLog(self._connection)

    @property
    def secrets(self) -> SqlSecrets:
        """Sealed values."""
        return SqlSecrets(self._connection)

    @property
    def plugins(self) -> SqlPlugins:
        """What workspaces have, and what organisations pinned, allow and trust."""
        return SqlPlugins(self._connection)

    @property
    def audit(self) -> SqlAudit:
        """Who touched what only few may touch."""
        return SqlAudit(self._connection)

    @property
    def retention(self) -> SqlRetention:
        """What may be forgotten."""
        return SqlRetention(self._connection)

    @property
    def signing(self) -> SqlSigningKeys:
        """The platform's own key pairs."""
        return SqlSigningKeys(self._connection)

    @property
    def grants(self) -> SqlGrants:
        """Extra edges of the tree."""
        return SqlGrants(self._connection)

    @property
    def presence(self) -> SqlPresence:
        """Which replicas are alive."""
        return SqlPresence(self._connection)

    @property
    def loops(self) -> SqlLoops:
        """Which replica does which periodic work."""
        return SqlLoops(self._connection)

    @property
    def attempts(self) -> SqlAttempts:
        """First requests under idempotency keys."""
        return SqlAttempts(self._connection)

    @property
    def upkeep(self) -> SqlUpkeep:
        """What the house looks after by itself."""
        return SqlUpkeep(self._connection)

    def signal(self, subject: str) -> None:
        """Ring that bell after the commit."""
        self.signals.append(subject)

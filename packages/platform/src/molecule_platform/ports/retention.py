"""What may be forgotten, as the store forgets it: in batches, each as small as asked for."""

from datetime import datetime
from typing import Protocol


class Retention(Protocol):
    """Verbs that delete. Each deletes at most `limit` rows and says how many it deleted."""

    def activity(self, before: datetime, limit: int) -> int:
        """Activity written before that time, but no row of a message that is still open."""
        ...

    def messages(self, before: datetime, limit: int) -> int:
        """Messages that ended before that time."""
        ...

    def tasks(self, before: datetime, limit: int) -> int:
        """Tasks that were over before that time."""
        ...

    def message_events(self, before: datetime, limit: int) -> int:
        """Event logs of tasks whose messages are gone, or all ended before that time and wait for nobody."""
        ...

    def delegations(self, before: datetime, limit: int) -> int:
        """Delegations that ended before that time, with the evidence for them."""
        ...

    def security_log(self, before: datetime, limit: int) -> int:
        """Deeds older than that."""
        ...

    def idempotency(self, before: datetime, limit: int) -> int:
        """Keys that expired before that time."""
        ...

    def sign_ins(self, before: datetime, limit: int) -> int:
        """Login codes, sessions, stream tickets and enrolment tokens that expired before that time."""
        ...

    def tokens(self, before: datetime, limit: int) -> int:
        """Tokens that ended before that time, except the ones that prove that a workspace was removed."""
        ...

    def grants(self, before: datetime, limit: int) -> int:
        """Extra edges of the tree that ended before that time."""
        ...

    def replicas(self, before: datetime, limit: int) -> int:
        """Replicas unseen since that time."""
        ...

    def signing_keys(self, before: datetime, limit: int) -> int:
        """Keys that others took over from before that time."""
        ...

    def private_halves(self, before: datetime, limit: int) -> int:
        """The private halves of such keys; the public ones stay."""
        ...

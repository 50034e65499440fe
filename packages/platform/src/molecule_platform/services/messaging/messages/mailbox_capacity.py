"""Capacity of a mailbox: messages and bytes of all its senders, of each one, and of its whole organisation.

Nearly always there is room, and that is known without asking: a mailbox with few messages cannot be over a
limit, and what was found once, plus what was accepted since, is at least what there is. Storage is asked
again only when that bound is reached, or is old: other replicas accept messages too.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from molecule_platform.domain import message_access
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.mailbox import Load, Usage
from molecule_platform.ports.storage import Transaction

USAGE_SECONDS = 1.0
ORG_SECONDS = 10.0
REPEATED_SHARE = 20
MAX_REMEMBERED = 10_000
_NOTHING = Usage(0, 0)


@dataclass(frozen=True)
class CapacityLimits:
    """The bounds an operator sets. A sender has at most its share, in messages and in bytes."""

    max_open: int = 1000
    sender_percent: int = 20
    max_bytes: int = 256 * 1024 * 1024
    org_max_bytes: int = 4 * 1024 * 1024 * 1024
    largest_body: int = 16 * 1024 * 1024

    @property
    def share(self) -> Usage:
        """What one sender may hold of a mailbox: one message at least, however large."""
        count, size = self.max_open * self.sender_percent // 100, self.max_bytes * self.sender_percent // 100
        return Usage(max(count, 1), max(size, self.largest_body))


@dataclass
class _LastUsage:
    """What a mailbox, or an organisation, held at most."""

    asked_at: float
    senders: dict[str, Usage] = field(default_factory=dict[str, Usage])
    size: int = 0
    # How long it took to ask.
    seconds: float = 0.0


class MailboxCapacity:
    """Decides whether a message is taken in. Users, org tokens and ancestors find room beside all others."""

    def __init__(self, limits: CapacityLimits, now: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._share = limits.share
        self._now = now
        self._boxes: dict[str, _LastUsage] = {}
        self._orgs: dict[str, _LastUsage] = {}

    def take(
        self, tx: Transaction, target: Workspace, sender: Principal, size: int, load: Load | None = None
    ) -> None:
        """Count a message of that size in. Raises `mailbox-full`, which names the limit and the figure."""
        self.check(tx, target, sender, size, load or tx.mailbox.load(target.id))
        known = self._boxes.get(target.id)
        if known is not None:
            held = known.senders.get(sender.text, _NOTHING)
            known.senders[sender.text] = Usage(held.messages + 1, held.size + size)
            known.size += size
        org = self._orgs.get(target.org_id)
        if org is not None:
            org.size += size

    def check(self, tx: Transaction, target: Workspace, sender: Principal, size: int, load: Load) -> None:
        """Raise `mailbox-full` if there is no room for a message of that size."""
        count, limits, share = load.accepted + load.leased, self.limits, self._share
        is_small = count < share.messages and count * limits.largest_body + size <= share.size
        if not is_small:
            self._check_box(tx, target, sender, size, count)
        self._check_org(tx, target, sender, size)

    def _check_box(
        self, tx: Transaction, target: Workspace, sender: Principal, size: int, count: int
    ) -> None:
        limits, share = self.limits, self._share
        for ask_anew in (False, True):
            known = self._box(tx, target.id, ask_anew)
            own = known.senders.get(sender.text, _NOTHING)
            full = (
                ("mailbox", limits.max_open, count >= limits.max_open),
                ("mailbox-bytes", limits.max_bytes, known.size + size > limits.max_bytes),
                ("sender-share", share.messages, own.messages >= share.messages),
                ("sender-share-bytes", share.size, own.size + size > share.size),
            )
            reached = [(limit, maximum) for limit, maximum, is_reached in full if is_reached]
            if not reached:
                return
            if not ask_anew:
                continue
            if not _is_exempt(tx, sender, target):
                raise message_access.mailbox_full(target, *reached[0])
            # It is in nobody's way but its own: what it holds itself may fill a mailbox, and no more.
            if own.messages >= limits.max_open:
                raise message_access.mailbox_full(target, "mailbox", limits.max_open)
            if own.size + size > limits.max_bytes:
                raise message_access.mailbox_full(target, "mailbox-bytes", limits.max_bytes)

    def _check_org(self, tx: Transaction, target: Workspace, sender: Principal, size: int) -> None:
        maximum = self.limits.org_max_bytes
        known = self._org(tx, target.org_id, ask_anew=False)
        if known.size + size <= maximum:
            return
        known = self._org(tx, target.org_id, ask_anew=True)
        # A tenth more is kept for those who can put things in order.
        more = maximum // 10 if _is_exempt(tx, sender, target) else 0
        if known.size + size > maximum + more:
            raise message_access.mailbox_full(target, "org-bytes", maximum)

    def _box(self, tx: Transaction, target_id: str, ask_anew: bool) -> _LastUsage:
        known, now = self._boxes.get(target_id), self._now()
        if known is None or ask_anew or now - known.asked_at > USAGE_SECONDS:
            senders = tx.mailbox.usage(target_id)
            known = _LastUsage(now, senders, sum(held.size for held in senders.values()))
            _remember(self._boxes, target_id, known)
        return known

    def _org(self, tx: Transaction, org_id: str, ask_anew: bool) -> _LastUsage:
        known, now = self._orgs.get(org_id), self._now()
        # The more open messages there are, the longer it takes, and the more rarely it is asked.
        watchdog = REPEATED_SHARE * known.seconds if known and ask_anew else ORG_SECONDS
        if known is None or now - known.asked_at > watchdog:
            size = tx.mailbox.open_bytes(org_id)
            known = _LastUsage(now, {}, size, self._now() - now)
            _remember(self._orgs, org_id, known)
        return known


def _is_exempt(tx: Transaction, principal: Principal, target: Workspace) -> bool:
    """Whether other senders cannot crowd it out: users, org tokens, and ancestors of the target."""
    return principal.workspace_id is None or tx.workspaces.descends(principal.workspace_id, target.id)


def _remember(held: dict[str, _LastUsage], key: str, known: _LastUsage) -> None:
    if len(held) >= MAX_REMEMBERED and key not in held:
        held.clear()
    held[key] = known

"""The people of an organisation: who belongs to it, as what, and that it never loses its last owner."""

from dataclasses import dataclass, replace

from molecule_platform.domain import people, principals
from molecule_platform.domain.authorisation import org_with, scope_required
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.people import Person
from molecule_platform.domain.principals import Principal
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.identity import tokens
from molecule_platform.services.support import audit_log
from molecule_platform.services.support.audit_log import AuditActor
from molecule_platform.services.support.signals import CREDENTIALS


@dataclass(frozen=True)
class MemberChange:
    """What shall be different about somebody; None leaves it as it is."""

    role: str | None = None
    disabled: bool | None = None
    platform_admin: bool | None = None

    def of(self, person: Person) -> Person:
        """The person after the change."""
        return replace(
            person,
            role=person.role if self.role is None else self.role,
            disabled=person.disabled if self.disabled is None else self.disabled,
            platform_admin=person.platform_admin if self.platform_admin is None else self.platform_admin,
        )


class MemberService:
    """Keeps the memberships of the caller's organisation."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def listing(self, by: Principal, after: str, limit: int) -> list[Person]:
        """The members by name, those after the one given."""
        return await self._storage.read(lambda tx: tx.people.members(by.org_id, after, limit))

    async def change(self, by: Principal, name: str, change: MemberChange, request_id: str) -> Person:
        """Give somebody another role, or close or open the door; sessions of before end at once.

        So do the tokens that they minted and could not mint any more.
        """
        _check_change(by, name, change)

        def work(tx: Transaction) -> Person:
            before = _member(tx, by, name)
            after = change.of(before)
            people.check_not_above(after, by.may)
            people.check_keeps_owner(before, after, tx.people.owners(by.org_id))
            if after != before:
                self._write(tx, before, after)
                self._note(tx, by, "user.change", name, request_id)
            return after

        return await self._storage.write(work)

    async def remove(self, by: Principal, name: str, request_id: str) -> None:
        """Take somebody out of the organisation; sessions end at once, and so do tokens they minted."""

        def work(tx: Transaction) -> None:
            person = _member(tx, by, name)
            people.check_keeps_owner(person, None, tx.people.owners(by.org_id))
            tx.people.end_sign_ins(name, self._clock.now(), by.org_id)
            tx.people.remove_member(name, by.org_id)
            tokens.end_tokens_of(tx, f"user:{name}", by.org_id, (), self._clock.now())
            tx.signal(CREDENTIALS)
            self._note(tx, by, "user.delete", name, request_id)

        await self._storage.write(work)

    def _write(self, tx: Transaction, before: Person, after: Person) -> None:
        tx.people.update_member(after)
        everywhere = after.platform_admin != before.platform_admin
        if everywhere:
            tx.people.set_platform_admin(after.name, after.platform_admin)
        now, org_id = self._clock.now(), None if everywhere else after.org_id
        tx.people.end_sign_ins(after.name, now, org_id)
        held = () if after.disabled else after.scopes
        tokens.end_tokens_of(tx, f"user:{after.name}", org_id, held, now)
        tx.signal(CREDENTIALS)

    def _note(self, tx: Transaction, by: Principal, action: str, name: str, request_id: str) -> None:
        actor = AuditActor(by.text, request_id)
        audit_log.note(tx, by.org_id, actor, action, f"user:{name}", self._clock.now())


def _check_change(by: Principal, name: str, change: MemberChange) -> None:
    if change.platform_admin is None:
        return
    if not by.is_admin:
        raise scope_required([org_with("admin")])
    if name == principals.ADMINISTRATOR and not change.platform_admin:
        raise ApiError(
            "conflict", f"{name} is who the platform's own token stands for, and stays administrator"
        )


def _member(tx: Transaction, by: Principal, name: str) -> Person:
    """Somebody whom the caller may decide over."""
    person = tx.people.member(name, by.org_id)
    if person is None:
        raise ApiError("not-found", f"there is no user {name[:64]} in this organisation")
    people.check_not_above(person, by.may)
    return person

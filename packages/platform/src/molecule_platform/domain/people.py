"""People and organisations: what a role makes of somebody, and the names an organisation may have."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from molecule_platform.domain import principals
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import check_text, invalid
from molecule_wire import ids, times

ROLES = tuple(principals.ROLE_SCOPES)
MAX_ORG_NAME_LENGTH = 255
MAX_SLUG_LENGTH = 63
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_USER = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")


@dataclass(frozen=True)
class Person:
    """Somebody as a member of one organisation; of another the same name may be something else."""

    name: str
    org_id: str
    role: str
    created_at: datetime
    disabled: bool = False
    last_login_at: datetime | None = None
    platform_admin: bool = False

    @property
    def scopes(self) -> frozenset[str]:
        """What the person may do once signed in."""
        return principals.ADMIN_SCOPES if self.platform_admin else principals.ROLE_SCOPES[self.role]

    @property
    def is_owner(self) -> bool:
        """Whether the organisation can count on this owner: one who is disabled opens nothing."""
        return self.role == "owner" and not self.disabled

    def row(self) -> dict[str, Any]:
        """The person on the wire."""
        seen = self.last_login_at
        return {
            "name": self.name,
            "role": self.role,
            "disabled": self.disabled,
            "created_at": times.format_time(self.created_at),
            "last_login_at": None if seen is None else times.format_time(seen),
        }


def check_not_above(person: Person, may: Callable[[str], bool]) -> None:
    """Nobody invites, changes or removes somebody who may do more than themselves."""
    missing = sorted(scope for scope in person.scopes if not may(scope))
    if missing:
        raise ApiError(
            "scope-required",
            f"nobody decides over more than they may do: {person.name} as {person.role} "
            f"has {', '.join(missing)}",
            required=list(missing),
        )


def check_keeps_owner(before: Person, after: Person | None, owners: int) -> None:
    """An organisation that has an owner keeps one. `owners` counts them before the change."""
    stays = after is not None and after.is_owner
    if before.is_owner and not stays and owners <= 1:
        raise ApiError(
            "conflict",
            f"{before.name} is the last owner of this organisation: make somebody else owner first",
        )


def check_user_name(name: str) -> str:
    """The name somebody signs in with."""
    if not _USER.fullmatch(name):
        raise invalid("user", "user has 1 to 64 small letters, digits and . _ @ -")
    return name


def check_org_name(name: str) -> str:
    """What an organisation is called."""
    if not name.strip():
        raise invalid("name", "name is empty")
    return check_text("name", name, MAX_ORG_NAME_LENGTH)


def check_slug(slug: str) -> str:
    """The short name of an organisation in paths and headers, never to be taken for an id."""
    if not _SLUG.fullmatch(slug) or ids.is_uuid(slug):
        raise invalid("slug", "slug has 1 to 63 small letters, digits and hyphens, and is no UUID")
    return slug


def slug_of(name: str) -> str:
    """The slug that a name suggests."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:MAX_SLUG_LENGTH].rstrip("-")
    if not slug:
        raise invalid("slug", "give a slug: the name has no letter or digit to make one from")
    return check_slug(slug)

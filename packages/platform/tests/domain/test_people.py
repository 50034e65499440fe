"""Names of people and organisations, and what a role makes of somebody."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import people
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.people import Person

NOW = datetime(2026, 5, 2, 12, tzinfo=UTC)


@given(st.text())
def test_any_name_gives_a_good_slug_or_the_advice_to_give_one(name: str) -> None:
    try:
        slug = people.slug_of(name)
    except ApiError as refusal:
        slug = str(refusal.extras["field"])
    assert people.check_slug(slug) == slug == people.slug_of(slug)


@pytest.mark.parametrize(
    ("name", "slug"),
    [("Acme", "acme"), (" Two  Words! ", "two-words"), ("Müller", "muller"), ("4 & 2", "4-2")],
)
def test_a_slug_reads_like_the_name(name: str, slug: str) -> None:
    assert people.slug_of(name) == slug


@pytest.mark.parametrize("name", ["", "Ann", "a b", "-a", "a" * 65, "a/b", "a\n"])
def test_a_user_name_is_short_and_plain(name: str) -> None:
    with pytest.raises(ApiError, match="small letters"):
        people.check_user_name(name)
    assert people.check_user_name("ann.b_c-d@example.org") == "ann.b_c-d@example.org"


def test_an_administrator_of_the_platform_is_one_in_any_role() -> None:
    assert Person("ann", "o", "viewer", NOW, platform_admin=True).scopes == {"admin"}
    assert Person("ann", "o", "viewer", NOW).scopes == {"org.read"}


def test_somebody_s_row_never_tells_of_other_organisations_or_of_the_platform() -> None:
    assert Person("ann", "o", "owner", NOW, platform_admin=True, last_login_at=NOW).row() == {
        "name": "ann",
        "role": "owner",
        "disabled": False,
        "created_at": "2026-05-02T12:00:00.000Z",
        "last_login_at": "2026-05-02T12:00:00.000Z",
    }

"""The list of what must no longer be installed: what is on it, how old it may be, that it never goes back."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_plugin.errors import PluginIntegrityError, PluginRevokedError
from molecule_plugin.revocations import (
    FRESH_SECONDS,
    CachedRevocations,
    Revocations,
    choose,
    parse_revocations,
    read_cache,
    write_cache,
)

DIGEST = "ab" * 32
LIST: dict[str, Any] = {
    "version": 7,
    "updated_at": "2026-01-01T00:00:00.000Z",
    "keys": [{"key_id": "21fe31dfa154a261", "reason": "stolen", "revoked_at": "2026-01-01T00:00:00.000Z"}],
    "digests": [{"content_sha256": DIGEST, "reason": "miner"}],
    "plugins": [
        {"name": "bad", "versions": ["*"], "reason": "abandoned"},
        {"name": "half", "versions": ["1.0.0", "1.0.1"], "reason": "leak"},
    ],
}
REVOKED = parse_revocations(LIST)


@pytest.mark.parametrize(
    ("name", "version", "digest", "signers", "reason"),
    [
        ("demo", "1", "00", ["21fe31dfa154a261"], "stolen"),
        ("demo", "1", "00", ["other", "21fe31dfa154a261"], "stolen"),
        ("demo", "1", DIGEST, [], "miner"),
        ("bad", "9", "00", [], "abandoned"),
        ("half", "1.0.1", "00", [], "leak"),
    ],
)
def test_a_revoked_key_digest_plugin_or_version_is_refused_with_the_reason(
    name: str, version: str, digest: str, signers: list[str], reason: str
) -> None:
    with pytest.raises(PluginRevokedError, match=f"plugin {name} {version} is revoked: {reason}") as caught:
        REVOKED.check(name, version, digest, signers)
    assert caught.value.reason == reason


@pytest.mark.parametrize(("name", "version"), [("demo", "1.0.0"), ("half", "1.0.2"), ("ba", "1")])
def test_what_is_not_on_the_list_passes(name: str, version: str) -> None:
    REVOKED.check(name, version, "00", ["another"])
    Revocations().check(name, version, DIGEST, ["21fe31dfa154a261"])


def test_a_revocation_without_a_reason_still_says_what_was_revoked() -> None:
    quiet = parse_revocations(
        {
            "version": 1,
            "keys": [{"key_id": "k"}],
            "digests": [{"content_sha256": DIGEST.upper()}],
            "plugins": [{"name": "n", "versions": ["1"]}],
        }
    )
    assert quiet.find("x", "1", "00", ["k"]) == "its key k was revoked"
    assert quiet.find("x", "1", DIGEST) == "its content was revoked"
    assert quiet.find("n", "1", "00") == "version 1 was revoked"


def test_a_list_travels_unchanged() -> None:
    assert REVOKED.to_json() == LIST
    assert parse_revocations({"version": 0}) == Revocations()


DAMAGED: list[Any] = [
    None,
    [],
    {},
    {"version": "7"},
    {"version": True},
    {"version": -1},
    LIST | {"keys": {}},
    LIST | {"keys": ["k"]},
    LIST | {"keys": [{"reason": "x"}]},
    LIST | {"digests": [{"content_sha256": 5}]},
    LIST | {"plugins": [{"name": "n", "versions": "*"}]},
    LIST | {"plugins": [{"name": "n", "versions": []}]},
    LIST | {"plugins": [{"name": "n", "versions": ["1", 2]}]},
    LIST | {"updated_at": 1},
]


@pytest.mark.parametrize("value", DAMAGED)
def test_a_damaged_list_is_refused_rather_than_read_in_part(value: Any) -> None:
    with pytest.raises(PluginIntegrityError):
        parse_revocations(value)


def cached(version: int, at: float) -> CachedRevocations:
    return CachedRevocations(Revocations(version), at)


def test_a_fetched_list_is_used_and_must_not_be_older_than_the_known_one() -> None:
    assert choose(None, REVOKED, 0.0, "require") == (REVOKED, ())
    assert choose(cached(7, 0.0), REVOKED, 1e9, "require") == (REVOKED, ())
    for policy in ("if-present", "require"):
        with pytest.raises(PluginIntegrityError, match="went back from version 8 to 7"):
            choose(cached(8, 0.0), REVOKED, 1e9, policy)


@pytest.mark.parametrize("age", [0.0, 3600.0, FRESH_SECONDS])
def test_a_copy_of_the_last_day_stands_in_for_a_list_that_cannot_be_fetched(age: float) -> None:
    assert choose(cached(3, 1000.0), None, 1000.0 + age, "require") == (Revocations(3), ())


@pytest.mark.parametrize("copy", [None, cached(3, 1000.0), cached(3, 1e9)])
def test_without_a_fresh_list_require_refuses_and_if_present_warns(copy: CachedRevocations | None) -> None:
    now = 1001.0 + FRESH_SECONDS
    with pytest.raises(PluginIntegrityError, match="could not be fetched"):
        choose(copy, None, now, "require")
    revocations, warnings = choose(copy, None, now, "if-present")
    assert revocations == (Revocations() if copy is None else copy.revocations)
    assert len(warnings) == 1


@given(st.lists(st.none() | st.integers(0, 5), max_size=8))
def test_the_version_that_is_gone_by_never_falls(versions: list[int | None]) -> None:
    known: CachedRevocations | None = None
    seen = 0
    for version in versions:
        fetched = None if version is None else Revocations(version)
        try:
            used, _ = choose(known, fetched, 0.0, "if-present")
        except PluginIntegrityError:
            continue
        assert used.version >= seen
        seen = used.version
        known = CachedRevocations(used, 0.0)


def test_a_copy_is_kept_on_disk_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    file = tmp_path / "revocations.json"
    assert read_cache(file) is None
    write_cache(file, CachedRevocations(REVOKED, 12.5))
    assert read_cache(file) == CachedRevocations(REVOKED, 12.5)
    for damage in ("", "[]", '{"fetched_at": true}', '{"fetched_at": 1, "revocations": {}}'):
        file.write_text(damage)
        assert read_cache(file) is None

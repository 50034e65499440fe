"""What may be installed where: the allowlist, runtimes, pins, and what the plugin SDK's errors become."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import plugins
from molecule_platform.domain.errors import ApiError
from molecule_plugin import errors
from molecule_wire.errors import TABLE

SOURCE = "github://acme/tools/sub#v1"


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([], True),
        (["tools"], True),
        (["too*"], True),
        (["github://acme/*"], True),
        (["github://acme/tools"], True),
        (["github://acme/tools/sub"], True),
        (["github://acme"], True),
        (["github://acm"], False),
        (["github://acme/too"], False),
        (["other", "local://tools"], False),
        (["Tools"], False),
    ],
)
def test_a_plugin_is_allowed_by_its_name_or_by_the_beginning_of_its_source(
    entries: list[str], allowed: bool
) -> None:
    assert plugins.is_allowed(entries, "tools", SOURCE) is allowed


@given(st.lists(st.text(max_size=12), min_size=1, max_size=5), st.text("abc-", min_size=1, max_size=8))
def test_a_list_allows_nothing_but_what_one_of_its_entries_covers(entries: list[str], name: str) -> None:
    source = f"local://{name}"
    covered = any(fnmatchcase(name if "://" not in entry else source, entry) for entry in entries)
    longer = any("://" in entry and source.startswith((f"{entry}/", f"{entry}#")) for entry in entries)
    assert plugins.is_allowed(entries, name, source) is (covered or longer)


def test_a_source_is_not_even_fetched_when_no_entry_could_let_it_in() -> None:
    assert not plugins.may_be_allowed(["github://acme/*"], "github://evil/tools")
    assert plugins.may_be_allowed(["github://acme/*", "tools"], "github://evil/tools")
    assert plugins.may_be_allowed([], "github://evil/tools")


@pytest.mark.parametrize(
    "entries", [[""], ["  "], ["a\nb"], ["x" * 600], ["x"] + [str(n) for n in range(1001)]]
)
def test_an_allowlist_that_says_nothing_sensible_is_refused(entries: list[str]) -> None:
    with pytest.raises(ApiError) as refused:
        plugins.check_entries(entries)
    assert refused.value.extras["field"] == "plugins"


def test_an_allowlist_keeps_its_order_and_each_entry_once() -> None:
    assert plugins.check_entries(["b", " a ", "b"]) == ["b", "a"]


@pytest.mark.parametrize(
    ("runtimes", "runtime", "suits"),
    [
        (None, "claude-code", True),
        (["claude_code"], "claude-code", True),
        (["claude-code"], "claude_code", True),
        (["claude_code"], "llm", False),
        ([], "llm", False),
        (["claude_code"], "external", True),
    ],
)
def test_runtimes_are_the_same_with_hyphens_and_underscores(
    runtimes: list[str] | None, runtime: str, suits: bool
) -> None:
    assert plugins.supports(runtimes, runtime) is suits


@pytest.mark.parametrize(
    ("policy", "kind", "refused"),
    [
        ("deny", None, True),
        ("deny", "branch", True),
        ("deny", "tag", False),
        ("deny", "commit", False),
        ("deny", "folder", False),
        ("lock", None, False),
        ("float", "branch", False),
    ],
)
def test_deny_refuses_what_follows_a_branch_and_nothing_else(
    policy: str, kind: str | None, refused: bool
) -> None:
    if not refused:
        plugins.check_pin(policy, SOURCE, kind)
        return
    with pytest.raises(ApiError) as refusal:
        plugins.check_pin(policy, SOURCE, kind)
    assert refusal.value.code == "plugin-source-unpinned"


@pytest.mark.parametrize("name", ["", "../x", "A", "a..b", "x" * 129, "a/b", ".a"])
def test_a_name_outside_the_rule_is_refused_as_such(name: str) -> None:
    with pytest.raises(ApiError) as refused:
        plugins.named(name)
    assert (refused.value.code, refused.value.extras["field"]) == ("invalid-request", "name")


@pytest.mark.parametrize(
    ("problem", "code", "extras"),
    [
        (errors.PluginTooLargeError("big", 7), "payload-too-large", {"limit_bytes": 7}),
        (errors.UnsafeArchiveError("link"), "unsafe-archive", {}),
        (errors.PluginManifestError("yaml"), "plugin-manifest-invalid", {}),
        (errors.SHA256MismatchError("x", "a", "b"), "plugin-integrity", {"expected": "a", "actual": "b"}),
        (errors.PluginSignatureError("bad"), "plugin-signature-invalid", {}),
        (errors.PluginSignatureRequiredError("none"), "plugin-signature-required", {}),
        (errors.PluginRevokedError("gone", "stolen key"), "plugin-revoked", {"reason": "stolen key"}),
        (
            errors.LockMismatchError("x", "a", "b"),
            "plugin-lock-mismatch",
            {"expected": "a", "actual": "b"},
        ),
        (errors.PluginError("busy"), "conflict", {}),
    ],
)
def test_what_the_plugin_sdk_raises_has_one_code(
    problem: errors.PluginError, code: str, extras: dict[str, object]
) -> None:
    refusal = plugins.refusal_of(problem)
    assert (refusal.code, refusal.extras) == (code, extras)
    assert code in TABLE

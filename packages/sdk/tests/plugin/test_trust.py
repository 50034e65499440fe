"""Who may sign what, and when a signature suffices: the table of the contract."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_plugin.errors import PluginSignatureError, PluginSignatureRequiredError
from molecule_plugin.keys import PublicKey
from molecule_plugin.trust import (
    POLICIES,
    UNSIGNED,
    Policy,
    SignatureCheck,
    TrustDecision,
    TrustedKey,
    decide,
    parse_policy,
    parse_trusted_keys,
    read_trusted_keys,
)

KEY = PublicKey(bytes(range(32)))
UNKNOWN = SignatureCheck(("k1",))
TRUSTED = SignatureCheck(("k1", "k2"), ("k1",))


@pytest.mark.parametrize(
    ("policy", "check", "outcome"),
    [
        ("if-present", UNSIGNED, "accepted"),
        ("if-present", UNKNOWN, "warned"),
        ("if-present", TRUSTED, "accepted"),
        ("require", UNSIGNED, "refused"),
        ("require", UNKNOWN, "refused"),
        ("require", TRUSTED, "accepted"),
    ],
)
def test_each_cell_of_the_policy_table(policy: Policy, check: SignatureCheck, outcome: str) -> None:
    decision = decide("demo", check, policy=policy)
    found = "refused" if decision.refusal else "warned" if decision.warnings else "accepted"
    assert found == outcome


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("check", [UNSIGNED, UNKNOWN, SignatureCheck(("k9",), ("k9",))])
def test_once_trusted_an_update_by_nobody_or_somebody_else_is_refused_unless_allowed(
    policy: Policy, check: SignatureCheck
) -> None:
    refused = decide("demo", check, policy=policy, previous=("k1",))
    with pytest.raises(PluginSignatureRequiredError, match="allow the signer to change"):
        refused.or_raise()
    allowed = decide("demo", check, policy=policy, previous=("k1",), allow_signer_change=True)
    assert allowed == decide("demo", check, policy=policy)


@given(
    st.sampled_from(POLICIES),
    st.sets(st.sampled_from("abc")),
    st.sets(st.sampled_from("abcd")),
    st.sets(st.sampled_from("abc")),
    st.booleans(),
)
def test_what_is_accepted_is_never_less_trusted_than_asked_for(
    policy: Policy, trusted: set[str], signers: set[str], previous: set[str], change: bool
) -> None:
    check = SignatureCheck(tuple(sorted(signers | trusted)), tuple(sorted(trusted)))
    decision = decide(
        "demo", check, policy=policy, previous=tuple(sorted(previous)), allow_signer_change=change
    )
    if not decision.refusal:
        assert trusted or policy == "if-present"
        assert change or not previous or previous & trusted
    if trusted and (change or not previous or previous & trusted):
        assert decision == TrustDecision()


def test_a_policy_is_read_and_a_misspelt_one_is_not_the_default() -> None:
    assert [parse_policy(text) for text in (None, "", "if-present", "require")] == [
        "if-present",
        "if-present",
        "if-present",
        "require",
    ]
    with pytest.raises(ValueError, match="must be one of: if-present, require"):
        parse_policy("Require")


def test_trusted_keys_are_read_with_globs_and_comments(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"# ours\n\n{KEY.text} molecule-* demo  # the docs team\n{KEY.text}\n")
    first, second = read_trusted_keys(tmp_path / "keys")
    assert first == TrustedKey(KEY, ("molecule-*", "demo"), "the docs team")
    assert [first.covers(name) for name in ("demo", "molecule-x", "demo2")] == [True, True, False]
    assert second.covers("anything")
    assert read_trusted_keys(tmp_path / "none") == ()


def test_a_line_that_is_no_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(PluginSignatureError, match="line 2"):
        parse_trusted_keys(f"{KEY.text}\ned25519:oops\n")
    (tmp_path / "keys").write_bytes(b"\xff")
    with pytest.raises(PluginSignatureError, match="not UTF-8"):
        read_trusted_keys(tmp_path / "keys")

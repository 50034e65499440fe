"""Who is trusted to sign which plugins, and whether a plugin's signature suffices."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias

from molecule_plugin.errors import PluginSignatureError, PluginSignatureRequiredError
from molecule_plugin.keys import PublicKey, parse_public_key

Policy: TypeAlias = Literal["if-present", "require"]
POLICIES: tuple[Policy, ...] = ("if-present", "require")
DEFAULT_POLICY: Policy = "if-present"
POLICY_VARIABLE = "MOLECULE_PLUGIN_SIGNATURES"
TRUSTED_KEYS_BYTES = 1024 * 1024


@dataclass(frozen=True)
class TrustedKey:
    """A key, and the plugins it may sign; without a glob it may sign all."""

    key: PublicKey
    allow: tuple[str, ...] = ()
    name: str = ""

    def covers(self, plugin: str) -> bool:
        """Whether the key may sign a plugin of this name."""
        return not self.allow or any(fnmatchcase(plugin, glob) for glob in self.allow)


@dataclass(frozen=True)
class SignatureCheck:
    """What a signature proved: `trusted` are signers that the caller trusts for this plugin.

    `key_ids` are all who are said to have signed; those outside `trusted` proved nothing, since a signature
    does not carry its key. An unsigned plugin has neither.
    """

    key_ids: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()

    @property
    def signed(self) -> bool:
        return bool(self.key_ids)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The signers that the caller does not trust for this plugin."""
        return tuple(key_id for key_id in self.key_ids if key_id not in self.trusted)


UNSIGNED = SignatureCheck()


@dataclass(frozen=True)
class TrustDecision:
    """Whether a plugin may be installed as far as its signers go: refused when `refusal` says why."""

    refusal: str = ""
    warnings: tuple[str, ...] = ()

    def or_raise(self) -> tuple[str, ...]:
        """The warnings of an accepted plugin; `PluginSignatureRequiredError` for a refused one."""
        if self.refusal:
            raise PluginSignatureRequiredError(self.refusal)
        return self.warnings


def decide(
    name: str,
    check: SignatureCheck,
    *,
    policy: Policy,
    previous: tuple[str, ...] = (),
    allow_signer_change: bool = False,
) -> TrustDecision:
    """Decide on a plugin whose signature, if it has one, was found to be about it.

    `previous` are the trusted signers of the version that was installed before. What is refused here lacks a
    signature that is asked for (`plugin-signature-required`); a wrong one was refused before
    (`plugin-signature-invalid`).
    """
    if previous and not allow_signer_change and not set(previous) & set(check.trusted):
        return TrustDecision(_signer_changed(name, check, previous))
    if check.trusted:
        return TrustDecision()
    if policy == "require":
        return TrustDecision(_signature_missing(name, check))
    if check.signed:
        return TrustDecision(
            warnings=(f"plugin {name} is signed by an unknown key ({_listed(check.key_ids)})",)
        )
    return TrustDecision()


def parse_policy(text: str | None) -> Policy:
    """Read `MOLECULE_PLUGIN_SIGNATURES`; nothing is the default, anything unknown a `ValueError`."""
    for policy in POLICIES:
        if text == policy:
            return policy
    if not text:
        return DEFAULT_POLICY
    raise ValueError(f"{POLICY_VARIABLE}={text[:40]!r} must be one of: {', '.join(POLICIES)}")


def parse_trusted_keys(text: str) -> tuple[TrustedKey, ...]:
    """Read `key [glob…] # comment` lines; `PluginSignatureError` names the line that is none."""
    found: list[TrustedKey] = []
    for number, line in enumerate(text.splitlines(), start=1):
        written, _, comment = line.partition("#")
        if words := written.split():
            try:
                found.append(TrustedKey(parse_public_key(words[0]), tuple(words[1:]), comment.strip()))
            except PluginSignatureError as problem:
                raise PluginSignatureError(f"trusted keys, line {number}: {problem}") from None
    return tuple(found)


def read_trusted_keys(path: Path) -> tuple[TrustedKey, ...]:
    """The keys of a file such as `~/.molecule/trusted_keys`; none when it does not exist."""
    try:
        with Path(path).open("rb") as file:
            return parse_trusted_keys(file.read(TRUSTED_KEYS_BYTES).decode())
    except FileNotFoundError:
        return ()
    except UnicodeDecodeError:
        raise PluginSignatureError(f"{path} is not UTF-8 text") from None


def _signer_changed(name: str, check: SignatureCheck, previous: tuple[str, ...]) -> str:
    found = f"signed by {_listed(check.key_ids)}" if check.signed else "unsigned"
    return (
        f"plugin {name} was installed with a signature of {_listed(previous)}, and this one is {found};"
        " if its publisher has a new key, trust that key and allow the signer to change"
    )


def _signature_missing(name: str, check: SignatureCheck) -> str:
    found = f"is signed by an unknown key ({_listed(check.key_ids)})" if check.signed else "is not signed"
    return (
        f"plugin {name} {found}, and {POLICY_VARIABLE}=require wants a trusted signature:"
        " add its publisher's key to the trusted keys"
    )


def _listed(key_ids: tuple[str, ...]) -> str:
    return ", ".join(key_ids)

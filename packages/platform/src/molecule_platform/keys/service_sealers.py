"""The keyring in the hands of the services that seal and open something."""

from collections.abc import Callable

from molecule_platform.domain.workspaces import Workspace
from molecule_platform.keys import sealed_text, signing
from molecule_platform.keys.sealing import KeyProblem, Keyring, Sealed
from molecule_platform.ports.secrets import SealedLine
from molecule_platform.ports.signing import Signer, SigningKey
from molecule_platform.services.keys.key_rotation import SealedColumn, SealedTextColumn
from molecule_platform.services.keys.secrets import Sealing
from molecule_platform.services.keys.signing_keys import seal_context
from molecule_platform.services.workspaces.registration import dispatch_seal_context


def for_secrets(keyring: Keyring) -> Sealing:
    """Values of secrets."""

    def seal(plaintext: bytes, bound_to: str) -> tuple[bytes, bytes, str]:
        sealed = keyring.seal(plaintext, bound_to)
        return sealed.nonce, sealed.ciphertext, sealed.key_id

    def open_sealed(nonce: bytes, ciphertext: bytes, key_id: str, bound_to: str) -> bytes:
        try:
            return keyring.open(Sealed(key_id, nonce, ciphertext), bound_to)
        except KeyProblem as problem:
            raise ValueError(str(problem)) from problem

    return Sealing(seal, open_sealed)


def for_texts(keyring: Keyring) -> Callable[[str, str], str]:
    """A text in its place, as one sealed line."""
    return lambda plaintext, bound_to: sealed_text.seal_text(keyring, plaintext, bound_to)


def for_places(keyring: Keyring) -> SealedTextColumn:
    """A text in its place, sealed and opened."""

    def open_sealed(line: str, bound_to: str) -> str:
        try:
            return sealed_text.open_text(keyring, line, bound_to)
        except KeyProblem as problem:
            raise ValueError(str(problem)) from problem

    return SealedTextColumn(for_texts(keyring), open_sealed)


def for_signing(keyring: Keyring) -> Callable[[SigningKey], Signer]:
    """A private key of the platform's own, in hand."""
    sealing = for_places(keyring)

    def opened(key: SigningKey) -> Signer:
        private = sealing.open(key.private_sealed, seal_context(key.kid))
        return Signer(key.kid, key.alg, signing.load(private))

    return opened


def opens_signing(keyring: Keyring) -> Callable[[SigningKey], bool]:
    """Whether a private key of the platform's own can be had."""
    opened = for_signing(keyring)

    def opens(key: SigningKey) -> bool:
        try:
            opened(key)
        except ValueError:
            return False
        return True

    return opens


def for_lines(keyring: Keyring) -> SealedColumn:
    """The sealed line of a workspace."""

    def seal(line: SealedLine, plaintext: str) -> str:
        return sealed_text.seal_text(
            keyring, plaintext, dispatch_seal_context(line.org_id, line.workspace_id)
        )

    def open_sealed(line: SealedLine) -> str:
        try:
            return sealed_text.open_text(
                keyring, line.line, dispatch_seal_context(line.org_id, line.workspace_id)
            )
        except KeyProblem as problem:
            raise ValueError(str(problem)) from problem

    return SealedColumn(seal, open_sealed)


def dispatch_secret(keyring: Keyring, workspace: Workspace) -> str | None:
    """What the platform shows to a workspace's agent; None when the agent gave nothing."""
    if workspace.dispatch_secret_sealed is None:
        return None
    place = dispatch_seal_context(workspace.org_id, workspace.id)
    return sealed_text.open_text(keyring, workspace.dispatch_secret_sealed, place)

"""What the platform says of a caller to the agent that is called: signed, and fresh for each attempt."""

import binascii
import itertools
from datetime import datetime

import msgspec

from molecule_platform.domain.messages import Message
from molecule_platform.domain.principals import workspace_principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.signing import Signer
from molecule_platform.services.keys.active_signers import ActiveSigners
from molecule_wire import JSONObject, ids

ALGORITHM = "EdDSA"
LIFETIME_SECONDS = 300

_FOR_URLS = bytes.maketrans(b"+/", b"-_")
# Each assertion has a name of its own: that of this process, and a number.
_PROCESS, _NUMBERS = ids.uuid7(), itertools.count(1)


class CallerAssertions:
    """Signs the header `X-Molecule-Caller`. Each dispatch needs one, so what can be made before is."""

    def __init__(self, keys: ActiveSigners, issuer: str) -> None:
        self._keys = keys
        self._issuer = issuer
        self._header = ("", b"")

    def sign(self, message: Message, target: Workspace, now: datetime) -> str:
        """The assertion for one attempt to deliver a message."""
        issued_at = int(now.timestamp())
        claims: JSONObject = {
            "iss": self._issuer,
            "sub": message.caller,
            "aud": workspace_principal(target.id),
            "iat": issued_at,
            "nbf": issued_at,
            "exp": issued_at + LIFETIME_SECONDS,
            "jti": f"{_PROCESS}-{next(_NUMBERS):x}",
            "org": message.org_id,
            "mid": message.message_ref,
            "row": message.id,
            "ctx": message.context_id,
            "delegation": message.delegation,
            "name": message.caller_name,
        }
        return self._signed(claims)

    def _signed(self, claims: JSONObject) -> str:
        signer = self._keys.signer(ALGORITHM)
        said = self._header_of(signer) + b"." + encoded(msgspec.json.encode(claims))
        return (said + b"." + encoded(signer.sign(said))).decode()

    def _header_of(self, signer: Signer) -> bytes:
        kid, header = self._header
        if kid != signer.kid:
            header = encoded(msgspec.json.encode({"alg": ALGORITHM, "kid": signer.kid, "typ": "JWT"}))
            self._header = (signer.kid, header)
        return header


def encoded(raw: bytes) -> bytes:
    """Base64 as JOSE writes it: for URLs, without padding."""
    return binascii.b2a_base64(raw, newline=False).translate(_FOR_URLS).rstrip(b"=")

"""The platform's public keys."""

from molecule_platform.api.calls import Call, Reply
from molecule_platform.services.signing import Signing


class SigningRoutes:
    """Serves /.well-known/jwks.json."""

    def __init__(self, signing: Signing, issuer: str) -> None:
        self._signing = signing
        self._issuer = issuer

    async def jwks(self, _call: Call) -> Reply:
        """The keys with which signatures of this platform are checked."""
        document = await self._signing.document(self._issuer)
        return Reply(document, 200, (("cache-control", "max-age=300"),))

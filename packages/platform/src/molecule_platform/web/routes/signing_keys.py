"""The platform's own keys."""

from molecule_platform.services.keys.signing_keys import SigningKeyService
from molecule_platform.services.support.audit_log import AuditActor
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_wire import times


class SigningKeyHandlers:
    """Serves /.well-known/jwks.json and /admin/keys."""

    def __init__(self, signing: SigningKeyService, issuer: str) -> None:
        self._signing = signing
        self._issuer = issuer

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {"jwks": self.jwks, "key.rotate": self.rotate}

    async def jwks(self, _call: Call) -> Response:
        """The keys with which signatures of this platform are checked."""
        document = await self._signing.document(self._issuer)
        return Response(document, 200, (("cache-control", "max-age=300"),))

    async def rotate(self, call: Call) -> Response:
        """Make new keys to sign with."""
        by = AuditActor(call.principal.text, call.request_id)
        done = await self._signing.rotate(by, call.principal.org_id)
        signs_at = times.format_time(done.signs_at)
        rotated = {"keys": done.living, "signs_at": signs_at, "retired": done.retired}
        return Response({"status": "rotated", **rotated})

"""Idempotency keys: a creating POST that is repeated under its key happens once."""

import contextlib
import re

from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import invalid
from molecule_platform.ports.storage import StorageDown
from molecule_platform.services.support import idempotency
from molecule_platform.services.support.idempotency import IdempotencyService
from molecule_platform.web.pipeline.calls import Call, Handler, Response

_PRINTABLE = re.compile(r"[\x20-\x7e]{1,255}")


class IdempotentHandler:
    """Runs a handler once for each key."""

    def __init__(self, idempotency: IdempotencyService) -> None:
        self._idempotency = idempotency

    async def run_once(self, call: Call, handler: Handler) -> Response:
        """The handler's reply; the first one's when the key was used before."""
        key = call.headers.get("idempotency-key")
        if key is None:
            return await handler(call)
        if not _PRINTABLE.fullmatch(key):
            raise invalid("Idempotency-Key", "Idempotency-Key has 1 to 255 printable characters")
        path = "/".join([call.route.path, *(call.path[name] for name in sorted(call.path))])
        scope = f"{_owner(call.principal)} {call.route.method} {path}"
        first = await self._idempotency.begin(scope, key, idempotency.body_hash(call.raw))
        if first is not None:
            return Response(first.body.encode(), first.status, (("idempotency-replayed", "true"),))
        return await self._first(call, handler, scope, key)

    async def _first(self, call: Call, handler: Handler, scope: str, key: str) -> Response:
        try:
            reply = await handler(call)
        except ApiError:
            await self._idempotency.forget(scope, key)
            raise
        except Exception:
            with contextlib.suppress(StorageDown):
                await self._idempotency.abandon(scope, key)
            raise
        await self._idempotency.finish(scope, key, reply.status, reply.encoded().decode())
        return reply


def _owner(principal: Principal) -> str:
    """An answer may show a token: only the credential that earned it, in the same role, sees it again."""
    return f"{principal.org_id} {principal.credential} {principal.text}"

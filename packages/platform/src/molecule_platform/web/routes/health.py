"""Health and readiness."""

from collections.abc import Awaitable, Callable

from molecule_platform import __version__
from molecule_platform.ports.storage import Storage, StorageDown
from molecule_platform.web.pipeline.calls import Call, Handler, Response


class HealthHandlers:
    """Serves /health and /ready."""

    def __init__(self, storage: Storage, keys_fit: Callable[[], Awaitable[bool]]) -> None:
        self._storage = storage
        self._keys_fit = keys_fit
        self.draining = False

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {"health": self.health, "ready": self.ready}

    async def health(self, _call: Call) -> Response:
        """The process is up; nothing else is touched."""
        return Response({"status": "ok", "version": __version__})

    async def ready(self, _call: Call) -> Response:
        """Report whether this replica can serve: storage answers and takes writes, keys open what is stored.

        Migrations were checked at the start; without them there is no process.
        """
        checks = {"storage": "ok", "keys": "ok", "migrations": "ok"}
        try:
            await self._storage.check()
            checks["keys"] = "ok" if await self._keys_fit() else "failed"
        except StorageDown:
            checks["storage"] = "failed"
        if "failed" not in checks.values() and not self.draining:
            return Response({"status": "ready", "checks": checks})
        return Response({"status": "not_ready", "checks": checks}, 503)

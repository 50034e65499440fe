"""The platform as an ASGI application, for any ASGI server.

    uvicorn --factory molecule_platform.asgi:create_app

`molecule up` serves the same application with limits on connections that a plain server does not have.
"""

import os
from contextlib import ExitStack

from molecule_a2a.asgi import Application, Receive, Scope, Send
from molecule_platform import settings as platform_settings
from molecule_platform.app import Platform
from molecule_platform.cli import lock
from molecule_platform.settings import Settings


def create_app(settings: Settings | None = None) -> Application:
    """Return the platform. It opens with the ASGI lifespan; without settings the environment has them."""
    if settings is None:
        settings, _warnings = platform_settings.load({}, os.environ)
    return _Application(settings)


class _Application:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._platform: Platform | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif self._platform is None:
            raise RuntimeError("the platform is not open: run it under a server that supports ASGI lifespan")
        else:
            await self._platform(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        with ExitStack() as exits:
            try:
                os.umask(0o077)  # files of the platform are for its owner alone
                exits.enter_context(lock.hold(self._settings.data_dir))
                self._platform = await Platform.open(self._settings)
            except Exception as problem:  # noqa: BLE001 - the server shows the message and exits
                await send({"type": "lifespan.startup.failed", "message": str(problem)})
                return
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self._platform.drain()
            await self._platform.close()
            await send({"type": "lifespan.shutdown.complete"})

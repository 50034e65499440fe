"""The baseline of figures about requests: Starlette on Uvicorn that answers a JSON body with itself.

It runs as Uvicorn comes: on uvloop and httptools, with a line in the log for each request. Without that line
it costs little more than half; figures that can afford it are held against this quiet one.

usage: python -m benchmarks.bare_echo PORT [quiet]
"""

import logging
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

QUIET = "quiet"


async def echo(request: Request) -> JSONResponse:
    return JSONResponse(await request.json())


def main(port: int, *wishes: str) -> None:
    app = Starlette(routes=[Route("/echo", echo, methods=["POST"])])
    config = uvicorn.Config(app, port=port, access_log=QUIET not in wishes)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    uvicorn.Server(config).run()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])

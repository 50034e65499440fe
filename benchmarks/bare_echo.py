"""The baseline of figures about requests: Starlette on Uvicorn that answers a JSON body with itself.

usage: python -m benchmarks.bare_echo PORT
"""

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


async def echo(request: Request) -> JSONResponse:
    return JSONResponse(await request.json())


def main(port: int) -> None:
    app = Starlette(routes=[Route("/echo", echo, methods=["POST"])])
    config = uvicorn.Config(
        app, port=port, http="httptools", loop="uvloop", lifespan="off", access_log=False, log_level="error"
    )
    uvicorn.Server(config).run()


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""The baseline of figures about requests: Starlette on Uvicorn that answers a JSON body with itself.

It runs on uvloop and httptools and writes no line for a request, as the reference server of the SDK does.

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
    uvicorn.run(app, port=port, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]))

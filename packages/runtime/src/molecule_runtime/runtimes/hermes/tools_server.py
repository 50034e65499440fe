"""An MCP server over stdin and stdout that offers hermes the tools of its workspace.

Hermes starts this file with its own interpreter, which has the `mcp` package and nothing of ours. Each call
goes to the runtime on this machine, which has the rights and asks the platform.
"""

import asyncio
import importlib
import json
import os
import urllib.error
import urllib.request
from typing import Any

URL_VARIABLE, TOKEN_VARIABLE = "MOLECULE_TOOLS_URL", "MOLECULE_TOOLS_TOKEN"
CALL_SECONDS = 320.0


def ask(path: str, arguments: dict[str, Any] | None = None) -> Any:
    """Ask the runtime: a GET without arguments, a POST with them."""
    body = None if arguments is None else json.dumps(arguments).encode()
    headers = {"Authorization": f"Bearer {os.environ[TOKEN_VARIABLE]}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{os.environ[URL_VARIABLE]}{path}", body, headers)  # noqa: S310
    # No proxy: the runtime is on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=CALL_SECONDS) as answer:
        return json.loads(answer.read())


async def serve() -> None:
    """Answer hermes until it closes the pipe."""
    types: Any = importlib.import_module("mcp.types")
    server: Any = importlib.import_module("mcp.server.lowlevel").Server("molecule")

    async def list_tools() -> list[Any]:
        specs: list[Any] = await asyncio.to_thread(ask, "/tools")
        return [
            types.Tool(name=spec["name"], description=spec["description"], inputSchema=spec["input_schema"])
            for spec in specs
        ]

    async def call_tool(name: str, arguments: dict[str, Any]) -> list[Any]:
        try:
            result = await asyncio.to_thread(ask, f"/tools/{name}", arguments)
        except urllib.error.HTTPError as refusal:
            result = {"error": f"the workspace refused the call: HTTP {refusal.code}"}
        except OSError:
            result = {"error": "the workspace cannot be reached; try again later"}
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        return [types.TextContent(type="text", text=text)]

    server.list_tools()(list_tools)
    server.call_tool()(call_tool)
    async with importlib.import_module("mcp.server.stdio").stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(serve())

"""An MCP server of tests over standard input and output; the file in its first argument counts the calls."""

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("shop")
CALLS = Path(sys.argv[1])


@server.tool()
def lookup_order(order: str) -> dict[str, str]:
    """Find an order."""
    with CALLS.open("a") as log:
        log.write(f"{order}\n")
    return {"status": f"{order} {os.environ.get('SHOP_MOOD', '')}"}


@server.tool()
async def hang() -> str:
    """Never answer."""
    await asyncio.sleep(3_600)
    return ""


@server.tool()
async def fail(order: str) -> str:
    """Raise an error whose text is personal."""
    raise ValueError(order)


@server.tool()
async def end_process() -> str:
    """End the server at once."""
    os._exit(3)


if __name__ == "__main__":
    server.run()

"""An MCP server of tests over standard input and output; the file in its first argument counts the calls."""

import asyncio
import json
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel

server = MCPServer("shop")
CALLS = Path(sys.argv[1])


@server.tool()
def lookup_order(order: str) -> dict[str, str]:
    """Find an order."""
    with CALLS.open("a") as log:
        log.write(f"{order}\n")
    return {"status": f"{order} {os.environ.get('SHOP_MOOD', '')}"}


@server.tool(structured_output=False)
def lookup_as_text(order: str) -> str:
    """Find an order, and answer as servers without structured results do."""
    return json.dumps({"status": f"{order} in a text"})


@server.tool()
def name_status(order: str) -> str:
    """Return a text, which the SDK wraps."""
    return f"{order} is on its way"


@server.tool()
def write_status(order: str) -> str:
    """Return JSON in a text, which the SDK wraps."""
    return json.dumps({"status": f"{order} in a text"})


@server.tool()
async def hang() -> str:
    """Never answer."""
    await asyncio.sleep(3_600)
    return ""


@server.tool()
async def fail(order: str) -> str:
    """Raise an error whose text is personal."""
    raise ValueError(order)


class Priced(BaseModel, json_schema_extra={"required": ["price"]}):
    """A result whose schema requires what it does not have."""


@server.tool()
async def unpriced() -> Priced:
    """Return a result that does not match its own schema."""
    return Priced()


@server.tool()
async def end_process() -> str:
    """End the server at once."""
    os._exit(3)


if __name__ == "__main__":
    server.run()

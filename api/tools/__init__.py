"""Tools of a server: called over HTTP, in this process or through MCP, and recorded so that no call is repeated."""

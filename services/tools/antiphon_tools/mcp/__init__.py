"""A client of MCP servers over streamable HTTP, in both eras of the protocol. Only `client.py` does I/O."""

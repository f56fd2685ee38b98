"""Runs tools for the edge: MCP tools of other servers, and web searches. It knows no turn and no store."""

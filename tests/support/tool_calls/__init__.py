"""Public vectors of tool calls: what models wrote, and what it means."""

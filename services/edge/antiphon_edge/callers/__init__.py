"""Authentication: API keys, trusted proxies, and the tenant of a request."""

"""The web console: static files that use the public HTTP API, and no other interface of the server."""

"""The web console: a page of static files over the public HTTP API, with no way of its own into the server."""

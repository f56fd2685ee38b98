"""The routes of the HTTP API: handlers, query parameters, headers and the form of answers."""

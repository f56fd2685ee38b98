"""The error of requests to a server. This module imports nothing, because every command imports it (mistakes.py)."""


class ApiError(Exception):
    """An error response of the server, or a failure to reach it. `status` is 0 if there was no response."""

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code

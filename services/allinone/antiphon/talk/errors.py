"""Errors of talking to a server. Without imports: every command knows them (antiphon.mistakes)."""


class ApiError(Exception):
    """An error of the server in its own words, or that it cannot be reached. `status` is 0 where nobody answered."""

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code

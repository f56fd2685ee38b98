"""The one error of this package: something on this machine keeps the local model from running."""


class LocalModelError(Exception):
    """The local model cannot be prepared or run. The message says what is wrong and what the user can do about it."""

"""Validation of arguments: pure functions that raise InvalidRequest or TooLarge with the name of the field."""

"""Rules of arguments. Pure: they raise InvalidRequest or TooLarge with the name of the field."""

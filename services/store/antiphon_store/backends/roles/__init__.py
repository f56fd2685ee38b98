"""The promises of the store's operations, topic by topic; the rules that hold for all stand in `backends.base`."""

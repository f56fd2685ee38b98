"""What the operations of the store promise, topic by topic; the rules that hold for all stand in `backends.base`."""

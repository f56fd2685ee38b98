"""What an engine must do, topic by topic; the rules that hold for every atom stand in `backends.base`."""

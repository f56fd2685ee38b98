"""What clients keep for us, so that only we can read it."""

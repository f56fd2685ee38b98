"""Content that clients keep for us, encrypted so that only we can read it."""

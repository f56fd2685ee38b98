"""The row backend of each database; `registry` chooses one by URL."""

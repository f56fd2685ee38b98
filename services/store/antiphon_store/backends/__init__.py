"""The rows of each database, and what the operations over them promise; `registry` picks a database by URL."""

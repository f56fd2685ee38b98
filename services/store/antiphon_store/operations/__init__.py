"""What an operator does to a store's data: once, over the rows of any database."""

"""Operators' work on a store's data: said once, over the rows of any database."""

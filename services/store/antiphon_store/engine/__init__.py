"""The store's operations over rows: where an operation runs, and what takes more than one program.

What one step must decide is in `antiphon_store.decisions`. The parts here send it to the rows of a tree and follow the
pointers between trees: a session's name to its tree, an idempotency key to its response, a queue's ticket to its job,
an item's id to the responses that hold it. A pointer is written first, and verified at the row that it names.
"""

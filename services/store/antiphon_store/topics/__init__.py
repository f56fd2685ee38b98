"""The operations of the store by topic: arguments, policy, waiting, and in which tree a decision runs.

What one step must decide is in `antiphon_store.decisions`, and so are the promises. An operation of one step is one
line (`topic.one_step`). Others follow the pointers between trees: a session's name to its tree, an idempotency key to
its response, a queue's ticket to its job, an item's id to the responses that hold it. A pointer is written first, and
verified at the row that it names.
"""

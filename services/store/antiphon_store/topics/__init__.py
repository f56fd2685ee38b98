"""The operations of the store by topic: checks of arguments, policy, waiting, and the choice of the tree.

The decisions of one step are in `antiphon_store.decisions`, with their guarantees. An operation of one step is one line
(`topic.one_step`). Others follow pointers between trees: from a session's name to its tree, an idempotency key to its
response, a queue's ticket to its job, an item's id to the responses with the item. A reader of a pointer verifies it at
the row that it names.
"""

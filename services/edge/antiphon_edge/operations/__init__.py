"""The operations of the edge: one table, from which routes, checks and documents follow.

    table             the table: one row for each method on a path
    parameters        the parameters in paths, queries and headers
    descriptions      longer descriptions of operations
    forms             parts of JSON schemas
    routing           the handler that serves each operation, and the operation that a request asks for

A new operation is a row in `table` and a handler with `serves`. A test fails when a row has no handler.
"""

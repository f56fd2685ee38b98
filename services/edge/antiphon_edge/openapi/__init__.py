"""The OpenAPI document of the edge, made from the declarations that the code itself uses.

    request_forms     the bodies that are accepted: the models that check them
    response_forms    the answers: the response, its items, lists, errors
    event_forms       the events of a stream
    chat_forms        the answers of chat completions
    parameters        the parameters in paths, queries and headers
    operations        the table of operations: one row for each route
    document          all of it as one document
    page              the document as a page for people

A new route needs one row in `operations`; a test fails when a route has none, or a row has no route.
"""

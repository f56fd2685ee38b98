"""The OpenAPI document of the edge, generated from the declarations that the code itself uses.

    request_forms     schemas of request bodies: the pydantic models that validate them
    response_forms    schemas of answers: the response, its items, lists, errors
    event_forms       schemas of the events of a stream
    chat_forms        schemas of the answers of chat completions
    parameters        the parameters in paths, queries and headers
    operations        the table of operations: one row for each route
    document          the OpenAPI document, from all of these
    page              the document as an HTML page

A new route needs one row in `operations`; a test fails when a route has none, or a row has no route.
"""

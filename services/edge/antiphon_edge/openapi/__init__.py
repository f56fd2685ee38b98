"""The OpenAPI document of the edge, generated from the declarations that the code itself uses.

request_forms     schemas of request bodies: the pydantic models that validate them
response_forms    schemas of answers: the response, its items, lists, errors
event_forms       schemas of the events of a stream
chat_forms        schemas of the answers of chat completions
document          the OpenAPI document, from all of these and the table of operations
page              the document as an HTML page
"""

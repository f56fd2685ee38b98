"""Chat completions, for clients that do not use the Responses API yet: converts requests, answers and errors.

    requests            a chat request to a create request
    messages            chat messages to items
    error_translator    parameters in errors of the create request to those of the chat request
    completions         a response to a chat completion
    chunks              events to chunks

All modules are pure: no sockets, no clock, no state beyond one stream (docs/adr/0035-chat-completions.md).
"""

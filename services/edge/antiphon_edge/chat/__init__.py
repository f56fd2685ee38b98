"""Chat completions, for clients that have not moved yet: another spelling of the same turns.

    requests       a chat request is a create request
    messages       messages are items
    culprits       what is wrong with the create request is wrong with the chat request, by other names
    completions    a response is a completion
    chunks         events are chunks

All of it is pure: no sockets, no clock, no state beyond one stream (docs/adr/0035-chat-completions.md).
"""

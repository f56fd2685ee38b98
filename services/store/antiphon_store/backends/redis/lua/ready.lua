#!lua
-- Answers if the server accepts writes. A server that is loading, read-only, out of memory, unable to save or short of
-- replicas rejects every script that may write, before it runs.
-- KEYS: none
-- ARGV: none
-- Answer: ok

return {'ok'}

#!lua
-- Answers when writes would be accepted: before it runs a script that may write, the server itself refuses it while it
-- is loading, read-only, out of memory, unable to save, or short of replicas.
-- needs:
-- KEYS: none
-- ARGV: none
-- Answer: ok

return {'ok'}

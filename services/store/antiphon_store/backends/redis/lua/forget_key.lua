#!lua flags=allow-oom
-- Frees an idempotency key that a response has claimed and not bound; allowed when memory is full, as it makes room.
-- needs: key_uses
-- KEYS: the idempotency key's
-- ARGV: now, tree before, tree after, id of the response
-- Answer: ok
-- Indivisible: whose the key is, and its end.

local use = read_use(KEYS[1])
if use and not use.stamp and use.response == ARGV[4] then
  redis.call('DEL', KEYS[1])
end
return {'ok'}

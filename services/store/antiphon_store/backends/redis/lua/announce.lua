#!lua flags=allow-oom
-- Remembers that a tenant may have something to sweep; allowed when memory is full, or nobody could delete then.
-- needs:
-- KEYS: the set of all tenants
-- ARGV: the tenant
-- Answer: ok
-- Indivisible: the one entry.

redis.call('SADD', KEYS[1], ARGV[1])
return {'ok'}

#!lua flags=allow-oom
-- Adds a tenant to those that may have something to sweep. Deletes need that, so it is allowed when memory is full.
-- KEYS: the set of all tenants
-- ARGV: the tenant
-- Answer: ok
-- Indivisible: the one entry.

redis.call('SADD', KEYS[1], ARGV[1])
return {'ok'}

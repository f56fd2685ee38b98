#!lua
-- Takes a tenant out of the set of all tenants.
-- needs:
-- KEYS: antiphon:tenants
-- ARGV: the tenant
-- Answer: ok
-- Indivisible: all of it.

redis.call('SREM', KEYS[1], ARGV[1])
return {'ok'}

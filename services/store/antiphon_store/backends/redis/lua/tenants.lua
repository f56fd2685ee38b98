#!lua flags=no-writes
-- Reads a part of the set of all tenants.
-- needs:
-- KEYS: the set
-- ARGV: where the part before ended, 0 at the beginning
-- Answer: ok, where this part ended (0: there is no other), tenants, some of them perhaps again
-- Indivisible: the part alone.

local TENANTS_PER_SCRIPT = 1000
local found = redis.call('SSCAN', KEYS[1], ARGV[1], 'COUNT', TENANTS_PER_SCRIPT)
return {'ok', found[1], found[2]}

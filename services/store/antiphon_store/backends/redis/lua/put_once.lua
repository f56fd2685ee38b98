#!lua
-- Inserts or replaces a response once for its idempotency key.
-- needs: commits key_uses
-- KEYS: the idempotency key's; what put needs
-- ARGV: now, tree before, tree after, the write, key, fingerprint, how long a key is remembered
-- Answer: ok, version, depth, created, updated, expires: for a bound key the first ones; or a refusal
-- Indivisible: what `put` is; that the key is free or the response's, and the binding.

local write, rest = parse_write()
local key, fingerprint, memory_ms = ARGV[rest], ARGV[rest + 1], tonumber(ARGV[rest + 2])
local use = read_use(KEYS[1])
if is_of_another_response(use, write.id) or is_of_another_request(use, fingerprint) then
  return {'idempotency_mismatch', key}
end
if is_in_force(use) and use.stamp then
  write_use(KEYS[1], use) -- for the replicas, as in parts/writing.lua
  return parse_stamp(use.stamp)
end
local stamp, refusal = put(write, {fence_at(3, write.fence_id, write.fence_token)})
if refusal then
  return refusal
end
bind(KEYS[1], use, write.id, stamp, fingerprint, memory_ms)
return stamp

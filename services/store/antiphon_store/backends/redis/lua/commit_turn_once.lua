#!lua
-- Ends a turn and binds its idempotency key.
-- needs: commits key_uses
-- KEYS: the idempotency key's; what commit_turn needs, or put when there is no session
-- ARGV: now, tree before, tree after, the write, id and token of the session's fence (dots: none), key, how long a
-- key is remembered
-- Answer: ok, version, depth, created, updated, expires; or a refusal
-- Indivisible: what `commit_turn` is; that the key is free or the response's, and the binding.

local write, rest = parse_write()
local key, memory_ms = ARGV[rest + 2], tonumber(ARGV[rest + 3])
local use = read_use(KEYS[1])
if is_of_another_response(use, write.id) then
  return {'idempotency_mismatch', key}
end
local has_session = ARGV[rest] ~= NONE
local fence = has_session and fence_at(3, ARGV[rest], ARGV[rest + 1]) or nil
local stamp, refusal = commit(write, fence, fence_at(has_session and 5 or 3, write.fence_id, write.fence_token))
if refusal then
  return refusal
end
bind(KEYS[1], use, write.id, stamp, nil, memory_ms)
return stamp

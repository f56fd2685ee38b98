#!lua
-- Begins a turn in a session.
-- needs: clock nodes lineage sessions reading
-- KEYS: the session's key
-- ARGV: now, tree before, tree after, holder, lease ttl, max depth, max bytes
-- Answer: ok, fence, holder, end of the lease, head id, metas, packed items; or a refusal
-- Indivisible: the lease and the history: a refused history takes no lease.

local holder, ttl_ms, max_depth, max_bytes = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local session = read_session(KEYS[1])
if not is_open_to(session, holder) then
  return {'session_locked'}
end
local metas, items, refusal = {}, {}, nil
local head, tree = head_of(session)
if head then
  metas, items, refusal = read_history(tree, head, max_depth, max_bytes)
end
if refusal then
  return refusal
end
take(session, holder, ttl_ms)
local answer = granted(session)
answer[5], answer[6], answer[7] = head and head.id or '', metas, items
return answer

#!lua
-- Appends one batch of events to a response's log.
-- needs: clock nodes sessions jobs fences event_logs
-- KEYS: the tree's root; the keys of a job and a session when there is a fence
-- ARGV: now, tree before, tree after, response id, the append (7), id and token of the fence
-- Answer: ok, the next position; or a refusal
-- Indivisible: whether the batch is there already, the fence, the end of the log, the batch, the log's new end.
-- Frequent: the writers of event logs append at the same moments.

local append = parse_append(5)
local log = find_log(ARGV[4])
if has_batch(log, append) then
  redis.call('HSET', log.key, 'next', log.next) -- for the replicas, as in parts/writing.lua
  return {'ok', tonumber(append.next)}
end
local refusal = refused_fence({fence_at(2, ARGV[12], ARGV[13])}) or refused_append(log, append)
if refusal then
  return refusal
end
append_to(log, append)
return {'ok', tonumber(append.next)}

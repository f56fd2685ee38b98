-- How a turn ends.
-- needs: nodes sessions jobs fences event_logs writing heads

-- Writes the turn's response; under the fence of a session, when there is one, it becomes the head and the lease ends.
-- The stamp, or nil and the refusal. `other` is the fence of the precondition.
local function commit(write, fence, other)
  if not fence then
    return put(write, {other})
  end
  local session = read_session(fence.session_key)
  local stamp, refusal = put(write, {fence, other})
  if stamp and holds(session, fence.token) then -- not so when this is a repetition
    release(session)
    move_head(session, write.id)
  end
  return stamp, refusal
end

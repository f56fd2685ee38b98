#!lua flags=allow-oom
-- Lets go of what a tenant kept until now: so much, or as much as one script may look at. Allowed when memory is full,
-- because it makes room.
-- needs: clock nodes lineage sessions reclaiming heads event_logs job_steps conversations
-- KEYS: the tenant's root
-- ARGV: now, tree before, tree after, most things
-- Answer: ok, how many things went, the bytes of their content, whether there may be more
-- Indivisible: that each was over, and its end.

local LOOKS_PER_SCRIPT = 256
local most = tonumber(ARGV[4])

-- For each kind in parts/ends.lua: how many things of this name went and their bytes, 0 when the time that was filed
-- was too early; then the name does not come up again now. nil when something would go, but there is no room for it.
local TAKERS = {
  n = function(name, room)
    local tree = ARGV[2] .. string.sub(name, 1, 16) .. ARGV[3]
    local node = node_at(tree, string.sub(name, 17))
    if not node or is_kept(tree, node) then
      file_end('n', name, node and node.expires or NONE)
      return 0, 0
    elseif has_children(tree, node) then -- it goes with the last of them
      unfile_end('n', name)
      return 0, 0
    elseif room == 0 then
      return nil
    end
    return drop_upwards(tree, node, room)
  end,

  l = function(id, room)
    local log = find_log(id)
    if log.is_there then
      file_end('l', id, log.expires)
      return 0, 0
    elseif room == 0 then
      return nil
    end
    return drop_log(log)
  end,

  j = function(id, room)
    local job = stored_job(job_key(id), id)
    if job and as_of(job, now_ms) then
      list_job(job)
      return 0, 0
    elseif room == 0 then
      return nil
    end
    local size = drop_job(id)
    return job and 1 or 0, size
  end,

  c = function(id, room)
    local conversation = stored_conversation(id)
    if not conversation or not is_over(conversation) then
      file_end('c', id, conversation and conversation.expires or NONE)
      return 0, 0
    elseif room == 0 then
      return nil
    end
    local size = #conversation.metadata
    end_conversation(conversation)
    return 1, size
  end,
}

local count, size = 0, 0
for _ = 1, LOOKS_PER_SCRIPT do
  local member = redis.call('ZRANGE', ENDS, '-inf', integer(now_ms), 'BYSCORE', 'LIMIT', 0, 1)[1]
  if not member then
    return {'ok', count, size, 0}
  end
  local gone, bytes = TAKERS[string.sub(member, 1, 1)](string.sub(member, 2), most - count)
  if not gone then
    return {'ok', count, size, 1}
  end
  count, size = count + gone, size + bytes
end
return {'ok', count, size, 1}

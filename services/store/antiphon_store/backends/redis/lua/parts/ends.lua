-- What a tenant keeps until a time: one sorted set, `:ends`, from which sweep.lua takes what is over. A member is a
-- letter for what it is, and its name:
--
--   n TAG PLACE       a response, by its tree's tag and its place there
--   l RESPONSE ID     an event log
--   j JOB ID          a job, at the time when it need not be remembered
--   c CONVERSATION    a conversation
--
-- A time may be too early, never too late: whoever takes a member looks again. A tenant that is spread over slots has
-- no such set; there the server gives the space of a tree back some time after the last of its responses expired.
-- needs: nodes

local TENANT = ARGV[2] .. ARGV[3] -- the root of the keys that belong to no tree
local IS_SPREAD = ARGV[3] ~= ''
local ENDS = TENANT .. ':ends'

-- Files when something is over; NONE: never.
local function file_end(kind, name, at_ms)
  if IS_SPREAD then
    return
  end
  if at_ms == NONE then
    redis.call('ZREM', ENDS, kind .. name)
  else
    redis.call('ZADD', ENDS, at_ms, kind .. name)
  end
end

local function unfile_end(kind, name)
  if not IS_SPREAD then
    redis.call('ZREM', ENDS, kind .. name)
  end
end

#!lua flags=no-writes
-- Reads nodes and all nodes below them, in no order.
-- KEYS: the partition's root
-- ARGV: now; how many; the nodes
-- Answer: ok, now, ids, fields
-- Indivisible: all of it.

local most = tonumber(ARGV[2])
local waiting = {}
for index = 3, #ARGV do
  waiting[#waiting + 1] = ARGV[index]
end
local ids, texts = {}, {}
while #waiting > 0 and #ids < most do
  local id = table.remove(waiting)
  local text = redis.call('HGET', root .. ':node', id)
  if text then
    ids[#ids + 1], texts[#texts + 1] = id, text
    for _, child in ipairs(redis.call('ZRANGE', root .. ':children:' .. id, 0, most - #ids)) do
      waiting[#waiting + 1] = child
    end
  end
end
return {'ok', now_ms, ids, texts}

#!lua flags=no-writes
-- Reads nodes and all nodes below them, in no order.
-- KEYS: the partition's root
-- ARGV: now; how many; how many levels deep (-1: all); the nodes
-- Answer: ok, now, ids, fields
-- Indivisible: all of it.

local most, levels = tonumber(ARGV[2]), tonumber(ARGV[3])
local waiting = {}
for index = 4, #ARGV do
  waiting[#waiting + 1] = {ARGV[index], levels}
end
local ids, texts = {}, {}
while #waiting > 0 and #ids < most do
  local id, left = unpack(table.remove(waiting))
  local text = redis.call('HGET', root .. ':node', id)
  if text then
    ids[#ids + 1], texts[#texts + 1] = id, text
    if left ~= 0 then
      for _, child in ipairs(redis.call('ZRANGE', root .. ':children:' .. id, 0, most)) do
        waiting[#waiting + 1] = {child, left - 1}
      end
    end
  end
end
return {'ok', now_ms, ids, texts}

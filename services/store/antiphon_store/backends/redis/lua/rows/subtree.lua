#!lua flags=no-writes
-- Reads a node and everything below it, in no order.
-- needs: rows
-- KEYS: the partition's root
-- ARGV: now; the node; how many
-- Answer: ok, now, ids, fields
-- Indivisible: all of it.

local waiting, most = {ARGV[2]}, tonumber(ARGV[3])
local ids, texts = {}, {}
while #waiting > 0 and #ids < most do
  local id = table.remove(waiting)
  local text = redis.call('HGET', root .. ':node', id)
  if text then
    ids[#ids + 1], texts[#texts + 1] = id, text
    for _, child in ipairs(redis.call('ZRANGE', root .. ':children:' .. id, 0, most)) do
      waiting[#waiting + 1] = child
    end
  end
end
return {'ok', now_ms, ids, texts}

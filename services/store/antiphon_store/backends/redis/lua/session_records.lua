#!lua flags=no-writes
-- Reads a page of the responses that were made in a session.
-- needs: clock nodes catalogue
-- KEYS: the sorted set of the session's responses
-- ARGV: now, tree before, tree after, order, birth, depth and id where the page before ended (dots: the first), most
-- responses, max bytes, where a call before this one stopped ('': none did)
-- Answer: ok, metas, packed items, bodies; whether there are more; where this call stopped, '' when it is done
-- Indivisible: the page as of one moment, unless more were passed over than one script may look at.

local LOOKS_PER_SCRIPT = 4096
local is_descending, most, max_bytes = ARGV[4] == 'desc', tonumber(ARGV[8]), tonumber(ARGV[9])
local stopped = ARGV[10]
if stopped == '' and ARGV[7] ~= NONE then
  stopped = made_member(ARGV[5], ARGV[6], ARGV[7])
end

local function next_members()
  if is_descending then
    return redis.call('ZRANGE', KEYS[1], stopped == '' and '+' or '(' .. stopped, '-', 'BYLEX', 'REV',
      'LIMIT', 0, PLACES_PER_CALL)
  end
  return redis.call('ZRANGE', KEYS[1], stopped == '' and '-' or '(' .. stopped, '+', 'BYLEX',
    'LIMIT', 0, PLACES_PER_CALL)
end

local metas, items, bodies, size = {}, {}, {}, 0
for _ = 1, LOOKS_PER_SCRIPT / PLACES_PER_CALL do
  local members = next_members()
  for _, member in ipairs(members) do
    local node, tree = readable(made_id(member))
    if node then
      size = size + tonumber(node.size)
      if #metas == most or (#metas > 0 and size > max_bytes) then
        return {'ok', metas, items, bodies, 1, ''}
      end
      local place = place_of(node)
      metas[#metas + 1] = format(node)
      items[#items + 1] = redis.call('HGET', tree .. ':items', place)
      bodies[#bodies + 1] = redis.call('HGET', tree .. ':body', place)
    end
    stopped = member
  end
  if #members < PLACES_PER_CALL then
    return {'ok', metas, items, bodies, 0, ''}
  end
end
return {'ok', metas, items, bodies, 0, stopped}

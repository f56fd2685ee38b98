-- The one clock of the store: the server's, in milliseconds. ARGV[1] is empty; only tests pass a time of their own.

local function integer(number)
  return string.format('%.0f', number) -- tostring() would write large ones as 1.7e+12
end

local function read_clock()
  if ARGV[1] ~= '' then
    return tonumber(ARGV[1])
  end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local now_ms = read_clock()

-- A call that may have run before is sent again with the same number, and answered as it was then. ARGV[1] is the writer, ARGV[2]
-- the number of the call; a writer sends the next one when it has the answer. So an older one is what a connection that was given up
-- delivers late: it has run, and nobody waits for its answer.
local marker = base .. 'writer:' .. ARGV[1]
local before = call('GET', marker)
if before then
  local number, reply = string.match(before, '^(%d+) (.*)$')
  if number == ARGV[2] then return reply end
  if tonumber(number) > tonumber(ARGV[2]) then return '' end
end
-- For a day: longer than anybody waits for Redis to come back.
local function answered(reply)
  call('SET', marker, ARGV[2] .. ' ' .. reply, 'EX', 86400)
  return reply
end

-- Keys in the order of their issue, after a place: place and row, one after another. Arguments: the list's name, the place, and
-- how many at most.
local ids = call('ZRANGEBYSCORE', base .. ARGV[1], '(' .. ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
local told = {}
if #ids > 0 then
  local names = {}
  for nth = 1, #ids, 2 do names[#names + 1] = ids[nth] end
  local rows = call('HMGET', base .. 'keys', unpack(names))
  for nth, row in ipairs(rows) do
    told[#told + 1] = tonumber(ids[2 * nth])
    told[#told + 1] = row
  end
end
return told

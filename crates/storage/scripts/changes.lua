-- What has changed since a place of the log: the store's name, its last place and who made the change there, who made the one at
-- the place that was asked about, then for each entry its place, who made it, what changed, and of a key how it is now. Arguments:
-- the place, and how many at most.
local state = call('HMGET', meta, 'epoch', 'changes')
local told = { state[1] or '', counted(state[2]), made_by(state[2]), made_by(ARGV[1]) }
if told[2] > tonumber(ARGV[1]) then
  for _, entry in ipairs(call('XRANGE', base .. 'changes', '(' .. ARGV[1] .. '-0', '+', 'COUNT', ARGV[2])) do
    local what = entry[2][2]
    told[#told + 1] = tonumber(string.match(entry[1], '^%d+'))
    told[#told + 1] = entry[2][4] or ''
    told[#told + 1] = what
    told[#told + 1] = string.sub(what, 1, 1) == 'k' and call('HGET', base .. 'keys', string.sub(what, 2)) or ''
  end
end
return told

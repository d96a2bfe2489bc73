-- Adds usage. Arguments after the first two: for each day, tenant and key these three, how many entries follow, and
-- each entry's route, plan, requests, refusals and tokens. A row is text, `route,plan,requests,refusals,tokens;` for each
-- entry, with routes and plans by their numbers.
local known = {}
local function label(text)
  if not known[text] then
    local number = call('HGET', base .. 'labels', text)
    if not number then
      number = whole(call('HINCRBY', meta, 'labels', 1))
      call('HSET', base .. 'labels', text, number)
      call('HSET', base .. 'labelled', number, text)
    end
    known[text] = number
  end
  return known[text]
end
-- Doubles are exact up to here.
local function sum(one, other) return math.min(one + other, 9007199254740992) end

local at = 3
while at < #ARGV do
  local day, tenant, key, entries = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local of_day = base .. 'usage:' .. day
  local name = of_day .. ':' .. tenant
  at = at + 4
  local order, totals = {}, {}
  for pair, one, two, three in string.gmatch(call('HGET', name, key) or '', '(%d+,%d+),(%d+),(%d+),(%d+);') do
    order[#order + 1] = pair
    totals[pair] = { tonumber(one), tonumber(two), tonumber(three) }
  end
  for _ = 1, entries do
    local pair = label(ARGV[at]) .. ',' .. label(ARGV[at + 1])
    local total = totals[pair]
    if not total then
      total = { 0, 0, 0 }
      totals[pair] = total
      order[#order + 1] = pair
    end
    for nth = 1, 3 do total[nth] = sum(total[nth], tonumber(ARGV[at + 1 + nth])) end
    at = at + 5
  end
  local parts = {}
  for nth, pair in ipairs(order) do
    local total = totals[pair]
    parts[nth] = pair .. ',' .. whole(total[1]) .. ',' .. whole(total[2]) .. ',' .. whole(total[3]) .. ';'
  end
  call('HSET', name, key, table.concat(parts))
  call('SADD', of_day, tenant)
  call('ZADD', base .. 'usage:days', day, day)
end
return answered('')

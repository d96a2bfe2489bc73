-- Grants a node a slice of one counter's tokens to spend by itself, and takes back what it has not spent of the one before.
-- Arguments: the algorithm's letter, the figures as text, the capacity, three more figures of the algorithm; the fewest tokens
-- the node can use and the most it wants to hold; how many the slice before was granted, how many of them are unspent, and
-- its mark; and how long slices of buckets live, in microseconds. One more argument, `former`, is for what concerns a counter
-- before: one of another algorithm has no part in that, and is left as it is. The slice that is answered then has no life.
--
-- The answer is the time; how many tokens the node holds now; for how long; the mark of the slice; and the counter's
-- three figures. Tokens are deducted when they are granted, so a node that dies strands its slice and nothing more.
local key = KEYS[1]
local kind, text, capacity = ARGV[1], ARGV[2], tonumber(ARGV[3])
local limit = { tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), capacity, text, kind }
local least, want = tonumber(ARGV[7]), tonumber(ARGV[8])
local granted, unspent, mark = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local lifetime, is_former = tonumber(ARGV[12]), ARGV[13] == 'former'

-- How many of `there` to add to what the node has: at most half, so that others find some too, unless it needs more.
local function addition(there)
  if unspent + there < least then return 0 end
  return math.max(math.min(want - unspent, there, math.max(least - unspent, math.ceil(there / 2))), 0)
end

if kind == 'b' or kind == 'p' then
  -- What is leased may be spent at any moment, so it still takes room in the bucket: tokens refill to the capacity less all
  -- slices. These are counted by the turn of `lifetime` they were granted in, and live to the end of the next one.
  local stored = call('HMGET', key, 'tokens', 'part', 'last_refill', 'limit', 'turn', 'leased', 'leased_before')
  local turn = floor(now / lifetime)
  local old_turn, leased, before = tonumber(stored[5]) or turn, tonumber(stored[6]) or 0, tonumber(stored[7]) or 0
  local tokens, part
  if stored[4] == text then
    -- By what was leased at the last call, also where slices have ended since: they may have been spent until then.
    local room = math.max(capacity - leased - before, 0)
    tokens, part = refill(tonumber(stored[1]), tonumber(stored[2]), tonumber(stored[3]), room, limit[1], limit[2])
  else
    local is_other = stored[4] and string.match(stored[4], '^%S+') ~= string.match(text, '^%S+')
    local state = read_bucket(key, limit)
    tokens, part = state[1], state[2]
    if is_former and is_other then return { now, 0, 0, turn, tokens, part, 0 } end
    if state[STALE] then call('UNLINK', key) end
    if not stored[1] then leased, before = 0, 0 end
    local room = math.max(capacity - leased - before, 0)
    if tokens >= room then tokens, part = room, 0 end
  end
  if turn == old_turn + 1 then
    before, leased = leased, 0
  elseif turn > old_turn then
    before, leased = 0, 0
  else
    turn = old_turn
  end
  if mark == turn then
    leased = math.max(leased - granted, 0)
  elseif mark == turn - 1 then
    before = math.max(before - granted, 0)
  else
    unspent = 0
  end
  -- Under a lower limit than it was granted by, of a slice is left what there is room for.
  unspent = math.min(unspent, math.max(capacity - leased - before, 0))
  local added = addition(tokens)
  if want < unspent then added = want - unspent end
  tokens, leased = tokens - added, leased + unspent + added
  call('HSET', key, 'tokens', tokens, 'part', part, 'last_refill', now, 'limit', text,
    'turn', turn, 'leased', leased, 'leased_before', before)
  -- A debt takes longer to be paid off than an empty bucket takes to be full: one that nodes made while they decided by
  -- themselves, before this limit was leased.
  local full_in = limit[3]
  if tokens < 0 then full_in = full_in * math.ceil((capacity - tokens) / capacity) end
  expire(key, full_in + 2 * lifetime)
  return { now, unspent + added, (turn + 2) * lifetime - now, turn, tokens, part, 0 }
end

-- A window's slice lives to the window's end, and is counted in it.
local state, ends
if kind == 'f' then
  state = read_fixed(key, limit)
  ends = state[2] + limit[1]
elseif kind == 's' then
  state = read_sliding(key, limit)
  ends = state[3] + limit[1]
else
  state = read_quota(key, limit)
  if not state then return { now } end
  ends = state[2]
end
if is_former and state[STALE] then return { now, 0, 0, ends, state[1], state[2], state[3] } end
if mark ~= ends then unspent = 0 end
local there = capacity - state[1]
if kind == 's' and now > state[3] then
  local faded, rest = mul_div(limit[1] - (now - state[3]), state[2], limit[1])
  there = there - faded - (rest > 0 and 1 or 0)
elseif kind == 's' then
  there = there - state[2]
end
-- Under a lower limit than it was granted by, of a slice comes back what is too much.
local over = math.max(math.min(unspent, -there), 0)
unspent = unspent - over
local added = addition(math.max(there, 0))
if want < unspent then added = want - unspent end
if added ~= over then
  state[1] = math.max(state[1] + added - over, 0)
  if kind == 'f' then write_fixed(key, state, limit)
  elseif kind == 's' then write_sliding(key, state, limit)
  else write_quota(key, state, limit)
  end
end
return { now, unspent + added, math.max(ends - now, 0), ends, state[1], state[2], state[3] }

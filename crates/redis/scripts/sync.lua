-- Tells one counter what a node has consumed, and the node what the others have. Nothing is refused here: nodes have decided
-- already, and what is too much is a debt that all of them carry.
--
-- Arguments: the algorithm's letter, the figures as text, the capacity, three more figures of the algorithm; the node's
-- name; the number of its account with the counter; when the counter began, as the node knows it; what the node has consumed
-- of it since then in all; what of that it has not been told the arrival of; what of this in turn is not to be counted unless
-- it was already; what all have consumed in all, as the node knows it; and the end of the last window in which it counts, or
-- 0. What comes after that is not charged to the windows that follow. A node's account and sum are kept beside the counter,
-- so a call that is repeated counts once. One more argument may follow. `reset` makes the counter new, and leaves a mark for
-- nodes that knew the one before: their own counters are to be made new too. `former` is for what was consumed of a counter
-- before: one of another algorithm has no part in that, and is left as it is.
--
-- The answer is the time; when the counter began; what all have consumed since; how much of it is news to the node; what
-- is left, which is all that a node needs that knew nothing of this counter, and may be a debt; and 1 if it has that mark.
local key = KEYS[1]
local kind, text, capacity = ARGV[1], ARGV[2], tonumber(ARGV[3])
local limit = { tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), capacity, text, kind }
local node, account, born_seen = 'node:' .. ARGV[7], ARGV[8], tonumber(ARGV[9])
local sum, unsent, forgiven, total_seen = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
local counts_until = tonumber(ARGV[14])

local is_bucket, is_reset = kind == 'b' or kind == 'p', ARGV[15] == 'reset'
local begins = now
if is_reset then
  -- Also where time went back, it is another counter.
  begins = math.max(now, (tonumber(call('HGET', key, 'born')) or 0) + 1)
  call('UNLINK', key)
end
local state
if is_bucket then state = read_bucket(key, limit)
elseif kind == 'f' then state = read_fixed(key, limit)
elseif kind == 's' then state = read_sliding(key, limit)
else state = read_quota(key, limit)
end
if not state then return { now } end
if ARGV[15] == 'former' then
  local there = call('HGET', key, 'limit')
  if there and string.match(there, '^%S+') ~= string.match(text, '^%S+') then return { now, 0, 0, 0, capacity, 0 } end
end

local stored = call('HMGET', key, 'born', 'total', node, 'reset')
-- Another algorithm's counter is deleted by the write below, and all of this with it.
if state[STALE] then stored = {} end
local born, total = tonumber(stored[1]), tonumber(stored[2]) or 0
local is_known = born and born == born_seen
-- What of its consumption the node thinks has arrived; `known` is what has. More has where an answer was lost. A sum of
-- another account says nothing of this one: the node forgot the counter meanwhile, and began at 0 again.
local acknowledged = is_known and sum - unsent or 0
local claimed = is_known and sum or unsent
local of_account, known = string.match(stored[3] or '', '^(%d+) (%d+)')
known = of_account == account and tonumber(known) or acknowledged
local settled = forgiven > 0 and math.max(known, acknowledged + forgiven) or known
local consumed = math.max(claimed - settled, 0)
local ends = kind == 'q' and state[2] or kind == 'f' and state[2] + limit[1] or kind == 's' and state[3] + limit[1] or 0
if counts_until > 0 and ends > counts_until then consumed = 0 end

local rest
if is_bucket then
  state[1] = state[1] - consumed
  rest = state[1]
else
  state[1] = state[1] + consumed
  rest = capacity - state[1]
end
if kind == 's' then
  local elapsed, faded, more = now - state[3], state[2], 0
  if elapsed > 0 then faded, more = mul_div(limit[1] - elapsed, state[2], limit[1]) end
  rest = rest - faded - (more > 0 and 1 or 0)
end
-- A node that could not be told before, and to which time has repaid all of it, is to learn whether this server takes writes.
local begins_empty = not born and forgiven > 0
if not born and consumed == 0 and not is_reset and not begins_empty then return { now, 0, 0, 0, rest, 0 } end
local news = is_known and math.max(total - total_seen - math.max(known - acknowledged, 0), 0) or 0

if consumed > 0 or is_reset or begins_empty then
  if is_bucket then
    write_bucket(key, state, limit)
    -- A debt takes longer to be paid off than an empty bucket takes to be full.
    if state[1] < 0 then expire(key, limit[3] * math.ceil((capacity - state[1]) / capacity)) end
  elseif kind == 'f' then write_fixed(key, state, limit)
  elseif kind == 's' then write_sliding(key, state, limit)
  else write_quota(key, state, limit)
  end
  total = total + consumed
  born = born or begins
  call('HSET', key, 'born', born, 'total', total)
  if is_reset then call('HSET', key, 'reset', born) end
end
if claimed > known then
  local day = floor(now / 86400000000)
  call('HSET', key, node, account .. string.format(' %.0f %.0f', claimed, day))
  -- Each process has a name of its own, and a counter in steady use never expires. So whoever comes takes the place of some
  -- that have not spoken for a day. Should one come back, it knows its sum itself; only if its last answer was lost too is
  -- that statement counted twice, against the caller. A user without the right to look for them leaves them.
  local some = stored[3] and {} or redis.pcall('HRANDFIELD', key, 16, 'WITHVALUES')
  for nth = 1, some.err and 0 or #some, 2 do
    local last = string.match(some[nth], '^node:') and string.match(some[nth + 1], '^%d+ %d+ (%d+)$')
    if last and tonumber(last) + 1 < day then call('HDEL', key, some[nth]) end
  end
end
return { now, born, total, news, rest, (is_reset or stored[4]) and 1 or 0 }

-- Token bucket, leaky bucket and GCRA (core's meter): `b`, and `p` where charges are let out evenly.
--
-- In lowest terms the rate is `per_us` tokens every `per_token` microseconds. Kept are whole tokens, the part of the next
-- one in units of 1/per_token, and when that was. So in `per_token` microseconds exactly `per_us` tokens come, and
-- only what is left of a span after that is multiplied: nothing is rounded.

-- What a bucket that held (tokens, part) at `since` holds now. Time that went back takes tokens with it, as the moment
-- when the bucket is full stays where it is.
local function refill(tokens, part, since, limit)
  local span = now - since
  local back_in_time = span < 0
  if back_in_time then span = -span end
  local turns = math.floor(span / limit.per_token)
  local come, rest = mul_div(span - turns * limit.per_token, limit.per_us, limit.per_token)
  come = come + turns * limit.per_us
  if back_in_time then
    tokens, part = tokens - come, part - rest
    if part < 0 then tokens, part = tokens - 1, part + limit.per_token end
  else
    tokens, part = tokens + come, part + rest
    if part >= limit.per_token then tokens, part = tokens + 1, part - limit.per_token end
  end
  if tokens >= limit.capacity then return limit.capacity, 0 end
  return tokens, part
end

-- The tokens of a bucket that was written under other figures, refilled by those until now: clamped to a lower capacity,
-- not filled to a higher, the part rounded against the caller. Another algorithm starts anew.
local function adopt(stored, limit)
  local algorithm, capacity, per_us, per_token = string.match(stored[4] or '', '^(%S+) (%d+) (%d+)/(%d+)us$')
  if not stored[1] or algorithm ~= string.match(limit.text, '^%S+') then return limit.capacity, 0 end
  local old = { capacity = tonumber(capacity), per_us = tonumber(per_us), per_token = tonumber(per_token) }
  local tokens, part = refill(tonumber(stored[1]), tonumber(stored[2]), tonumber(stored[3]), old)
  if tokens >= limit.capacity then return limit.capacity, 0 end
  return tokens, (mul_div(part, limit.per_token, old.per_token))
end

function read.b(key, limit)
  local stored = redis.call('HMGET', key, 'tokens', 'part', 'last_refill', 'limit')
  limit.per_us, limit.per_token, limit.refills_in = limit[1], limit[2], limit[3]
  if stored[4] == limit.text then
    local written = tonumber(stored[3])
    local tokens, part = refill(tonumber(stored[1]), tonumber(stored[2]), written, limit)
    return { tokens, part, 0, written = written }
  end
  local tokens, part = adopt(stored, limit)
  return { tokens, part, 0, renamed = true, stale = stored[4] and not stored[1] }
end

-- Whether `cost` passes; if it does, it is charged.
function take.b(state, limit, cost)
  if limit.kind == 'p' then
    if state[1] < limit.capacity then return false end
  elseif state[1] < cost then
    return false
  end
  state[1] = state[1] - cost
  return true
end

function write.b(key, state, limit)
  if state.renamed then
    if state.stale then redis.call('UNLINK', key) end
    redis.call('HSET', key, 'tokens', state[1], 'part', state[2], 'last_refill', now, 'limit', limit.text)
    expire(key, limit.refills_in)
    return
  end
  redis.call('HSET', key, 'tokens', state[1], 'part', state[2], 'last_refill', now)
  -- The first write in each span of SLACK sets the expiry, and so for all of that span.
  if math.floor(now / SLACK) ~= math.floor(state.written / SLACK) then expire(key, limit.refills_in) end
end

-- The charge left (tokens, part) at `at`. What it still owes is at most what that bucket would still lack now.
function back.b(key, limit, cost, tokens, part, at)
  limit.per_us, limit.per_token = limit[1], limit[2]
  local stored = redis.call('HMGET', key, 'tokens', 'part', 'last_refill', 'limit')
  -- Other figures have other units: the charge stays, and time repays it.
  if stored[4] ~= limit.text then return end
  local would, would_part = refill(tokens, part, at, limit)
  local whole, rest = limit.capacity - would, -would_part
  if whole > cost or (whole == cost and rest >= 0) then whole, rest = cost, 0 end
  local held, held_part = tonumber(stored[1]) + whole, tonumber(stored[2]) + rest
  if held_part < 0 then held, held_part = held - 1, held_part + limit.per_token end
  redis.call('HSET', key, 'tokens', held, 'part', held_part)
end

read.p, take.p, write.p, back.p = read.b, take.b, write.b, back.b

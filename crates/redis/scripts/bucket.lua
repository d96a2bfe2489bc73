-- Token bucket, leaky bucket and GCRA (core's meter): `b`, and `p` where charges are let out evenly.
--
-- In lowest terms the rate is `per_us` tokens every `per_token` microseconds; the limit's third figure is how long an empty
-- bucket takes to be full. Kept are whole tokens, the part of the next one in units of 1/per_token, and when that was. In
-- `per_token` microseconds exactly `per_us` tokens come, and only what is left of a span after that is multiplied: nothing
-- is rounded.

-- What a bucket that held (tokens, part) at `since` holds now. Time that went back takes tokens with it, as the moment
-- when the bucket is full stays where it is.
local function refill(tokens, part, since, capacity, per_us, per_token)
  local span = now - since
  if span < 0 then
    local turns = floor(-span / per_token)
    local gone, rest = mul_div(-span - turns * per_token, per_us, per_token)
    tokens, part = tokens - turns * per_us - gone, part - rest
    if part < 0 then tokens, part = tokens - 1, part + per_token end
  else
    local turns = floor(span / per_token)
    local come, rest = mul_div(span - turns * per_token, per_us, per_token)
    tokens, part = tokens + turns * per_us + come, part + rest
    if part >= per_token then tokens, part = tokens + 1, part - per_token end
  end
  if tokens >= capacity then return capacity, 0 end
  return tokens, part
end

local function read_bucket(key, limit)
  local stored = call('HMGET', key, 'tokens', 'part', 'last_refill', 'limit')
  local capacity, text = limit[CAPACITY], limit[TEXT]
  if stored[4] == text then
    local written = tonumber(stored[3])
    local tokens, part = refill(tonumber(stored[1]), tonumber(stored[2]), written, capacity, limit[1], limit[2])
    return { tokens, part, 0, false, written, false, limit, key, false }
  end
  -- New, or written under other figures. By those it is refilled until now: clamped to a lower capacity, not filled to a
  -- higher, the part rounded against the caller. Another algorithm starts anew.
  local tokens, part = capacity, 0
  local algorithm, old_capacity, per_us, per_token = string.match(stored[4] or '', '^(%S+) (%d+) (%d+)/(%d+)us$')
  if stored[1] and algorithm == string.match(text, '^%S+') then
    per_token = tonumber(per_token)
    tokens, part = refill(tonumber(stored[1]), tonumber(stored[2]), tonumber(stored[3]),
      tonumber(old_capacity), tonumber(per_us), per_token)
    part = mul_div(part, limit[2], per_token)
    if tokens >= capacity then tokens, part = capacity, 0 end
  end
  return { tokens, part, 0, true, 0, stored[4] and not stored[1], limit, key, false }
end

-- Whether `cost` passes; if it does, it is charged.
local function take_bucket(state, limit, cost)
  local tokens = state[1]
  if limit[KIND] == 'p' then
    if tokens < limit[CAPACITY] then return false end
  elseif tokens < cost then
    return false
  end
  state[1] = tokens - cost
  return true
end

local function write_bucket(key, state, limit)
  if state[ANEW] then
    if state[STALE] then call('UNLINK', key) end
    call('HSET', key, 'tokens', state[1], 'part', state[2], 'last_refill', now, 'limit', limit[TEXT])
    expire(key, limit[3])
    return
  end
  call('HSET', key, 'tokens', state[1], 'part', state[2], 'last_refill', now)
  -- The first write in each span of SLACK sets the expiry, and so for all of that span.
  if floor(now / SLACK) ~= floor(state[EXTRA] / SLACK) then expire(key, limit[3]) end
end

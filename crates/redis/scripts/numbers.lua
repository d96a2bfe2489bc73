-- Lua's numbers are doubles: whole numbers are exact up to 2^53, and so is every step below.

-- How much longer than its refill a key lives, so that a busy key's expiry is set now and then and not always.
local SLACK = 10000000

-- Each algorithm adds its steps under the letter it is asked for by.
local read, take, write, back = {}, {}, {}, {}

-- floor(a * b / d) and the remainder, for a < d < 2^37 or so and b < 2^53: by digits of b where the product would
-- not be exact. With digits of 15 bits nothing here exceeds 2^53.
local function mul_div(a, b, d)
  if a * b < 9007199254740992 then
    local quotient = math.floor(a * b / d)
    return quotient, a * b - quotient * d
  end
  local quotient, rest = 0, 0
  for shift = 3, 0, -1 do
    local unit = 32768 ^ shift
    local digit = math.floor(b / unit)
    b = b - digit * unit
    rest = rest * 32768 + a * digit
    local more = math.floor(rest / d)
    quotient = quotient * 32768 + more
    rest = rest - more * d
  end
  return quotient, rest
end

-- Whether a counter written under the figures `old` goes on under `new`: texts are `<algorithm> <figure> <span>`.
local function goes_on(old, new)
  if not old then return false end
  local algorithm, _, span = string.match(old, '^(%S+) (%d+) (.+)$')
  local algorithm_now, _, span_now = string.match(new, '^(%S+) (%d+) (.+)$')
  return algorithm == algorithm_now and span == span_now
end

-- So long after `now`, in whole milliseconds.
local function expire(key, micros)
  redis.call('PEXPIRE', key, math.ceil((micros + SLACK) / 1000))
end

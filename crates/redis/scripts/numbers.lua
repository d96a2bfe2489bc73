-- Lua's numbers are doubles: whole numbers are exact up to 2^53, and so is every step below.
--
-- A script makes its functions and tables anew on every call, so there are few of them, and tables are lists.
-- `limit` is the three figures that only its algorithm knows, then what all have:
local CAPACITY, TEXT, KIND = 4, 5, 6
-- `state` is the three figures that the caller is told, then
local ANEW, EXTRA, STALE, LIMIT, KEY, CHARGED = 4, 5, 6, 7, 8, 9

local call, floor = redis.call, math.floor

-- How much longer than its refill a key lives, so that a busy key's expiry is set now and then and not always.
local SLACK = 10000000

-- So long after `now`, in whole milliseconds.
local function expire(key, micros)
  call('PEXPIRE', key, math.ceil((micros + SLACK) / 1000))
end

-- floor(a * b / d) and the remainder, for a < d < 2^37 and b < 2^53: by digits of b where the product would not be exact.
-- With digits of 15 bits nothing here exceeds 2^53.
local function mul_div(a, b, d)
  local product = a * b
  if product < 9007199254740992 then
    local quotient = floor(product / d)
    return quotient, product - quotient * d
  end
  local quotient, rest = 0, 0
  for shift = 3, 0, -1 do
    local unit = 32768 ^ shift
    local digit = floor(b / unit)
    b = b - digit * unit
    rest = rest * 32768 + a * digit
    local more = floor(rest / d)
    quotient = quotient * 32768 + more
    rest = rest - more * d
  end
  return quotient, rest
end

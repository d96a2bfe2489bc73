-- Takes as much of a quota's period as is asked for and the limit leaves. Arguments: the amount, the limit, the period's first
-- moment and the first after it in nanoseconds, and how many milliseconds the balance is kept after that. Answers what was granted
-- and what is taken now. No number here exceeds 2^53.
local amount, limit, ends_ms, keep_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[5]), tonumber(ARGV[6])
local taken = tonumber(redis.call('HGET', KEYS[1], 'taken')) or 0
local granted = math.max(math.min(amount, limit - taken), 0)
if granted > 0 then
  local time = redis.call('TIME')
  -- However wrong a clock is, a balance in use is kept for a day.
  local rest = math.max(ends_ms + keep_ms - time[1] * 1000, 86400000)
  taken = taken + granted
  redis.call('HSET', KEYS[1], 'taken', string.format('%.0f', taken), 'begins', ARGV[3], 'ends', ARGV[4])
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', rest))
end
return { granted, taken }

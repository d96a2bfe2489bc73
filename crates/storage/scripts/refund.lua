-- Gives a quota back what was reserved and not spent.
local taken = tonumber(redis.call('HGET', KEYS[1], 'taken'))
if taken then
  redis.call('HSET', KEYS[1], 'taken', string.format('%.0f', math.max(taken - tonumber(ARGV[1]), 0)))
end
return 1

-- Keeps the list of nodes that are alive, by when each was last heard of. Arguments: the node's name, how long a node counts as
-- alive after it was heard of in microseconds, and `leave` if it stops. The answer is how many there are.
local nodes, life = KEYS[1], tonumber(ARGV[2])
if ARGV[3] == 'leave' then
  call('ZREM', nodes, ARGV[1])
else
  call('ZADD', nodes, now, ARGV[1])
end
call('ZREMRANGEBYSCORE', nodes, '-inf', now - life)
call('PEXPIRE', nodes, floor(2 * life / 1000))
return call('ZCARD', nodes)

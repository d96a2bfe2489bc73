-- The server's own time in microseconds: nodes need not agree on theirs. Tests put another file in place of this one.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

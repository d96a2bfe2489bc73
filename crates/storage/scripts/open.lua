-- Finds the store, or makes an empty one, and sees that everything the other scripts do may be done. Arguments: a name for a
-- new store, the newest schema that is known, and the channel. Answers the schema, the name, and the last place of the log
-- and who made the change there.
local probe = base .. 'probe'
local schema = tonumber(call('HGET', meta, 'schema'))
for _, words in ipairs({
  { 'SET', probe, '1', 'EX', 60 }, { 'GET', probe }, { 'UNLINK', probe },
  { 'HSET', probe, 'a', '1' }, { 'HINCRBY', probe, 'a', 1 }, { 'HMGET', probe, 'a' }, { 'HLEN', probe }, { 'HDEL', probe, 'a' },
  { 'ZADD', probe, 1, 'a' }, { 'ZCARD', probe }, { 'ZRANGE', probe, 0, 0 }, { 'ZRANGEBYSCORE', probe, 0, 1 },
  { 'ZREM', probe, 'b' }, { 'ZPOPMIN', probe, 1 },
  { 'SADD', probe, 'a' }, { 'SPOP', probe },
  { 'XADD', probe, '1-0', 'a', '1' }, { 'XRANGE', probe, '-', '+' }, { 'XDEL', probe, '1-0' },
  { 'UNLINK', probe },
}) do
  local done = redis.pcall(unpack(words))
  if type(done) == 'table' and done.err then
    -- A server without room can still be read, and says so to whoever writes.
    if schema and string.sub(done.err, 1, 3) == 'OOM' then break end
    redis.pcall('UNLINK', probe)
    return redis.error_reply('ERR ' .. words[1] .. ' is not possible: ' .. done.err)
  end
end
if not schema then
  schema = tonumber(ARGV[2])
  call('HSET', meta, 'schema', ARGV[2], 'epoch', ARGV[1])
end
local last = call('HGET', meta, 'changes')
return { schema, call('HGET', meta, 'epoch'), counted(last), made_by(last) }

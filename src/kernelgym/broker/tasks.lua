-- The lease protocol, first half: tasks, queues, ends. lease.lua, the second half, has the operations;
-- the two are loaded as one script, and every operation is one atomic step on one broker.
--
--   KEYS[1] prefix of all keys; ARGV[1] operation; the rest belongs to the operation.
--
-- task:ID     hash    state queued|leased|preparing|running|done|cancelled|dead, attempts (the
--                     fencing token: a lease is worth nothing once a newer one exists), failures
--                     (infrastructure only), batches, client, class, score, content, ...
-- queue:C:K   zset    queued tasks of client K for device class C, by priority, then by age
-- active:C    zset    clients with queued tasks, by virtual start time; clock:C, finish:C belong to it
-- wake:C      list    at most one token: "class C has work"; servers block on it, nobody polls
-- leases, deadlines, expiry   zsets by millisecond;   held:W  set, tasks leased to worker W
-- batch:B, batch:B:ids, batch:B:events    the events are ids of finished tasks: a cursor is an index
-- idem:K      hash    client's key -> task;   content:H  string, the task whose verdict is shared
-- followers:ID list   queued tasks that wait for the verdict of ID, which has the same content
-- served      hash    device class -> when a worker of that class was last heard of
--
-- Time is the broker's. Not covered: who may call what (the server's job), and loss of the broker's
-- disk (clients resubmit with the same keys).

local P, op = KEYS[1], ARGV[1]
local call = redis.call
local LIVE = { leased = true, preparing = true, running = true }

local function broker_time()
  local t = call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local NOW = broker_time()

local function config(name, default)
  return tonumber(call('HGET', P .. 'config', name) or default)
end
local TTL = config('result_ttl_ms', 86400000)

local function get(id, field) return call('HGET', P .. 'task:' .. id, field) end
local function put(id, ...) call('HSET', P .. 'task:' .. id, ...) end
local function count(name, by) call('HINCRBY', P .. 'counters', name, by or 1) end

local function move(id, to)
  local from = get(id, 'state')
  if from then call('HINCRBY', P .. 'states', from, -1) end
  call('HINCRBY', P .. 'states', to, 1)
  put(id, 'state', to)
end

local function charge(id, bytes)
  call('HINCRBY', P .. 'task:' .. id, 'bytes', bytes)
  call('HINCRBY', P .. 'states', 'bytes', bytes)
end

-- Queues -----------------------------------------------------------------------------------------

local function wake(class)
  if call('LLEN', P .. 'wake:' .. class) == 0 then call('RPUSH', P .. 'wake:' .. class, '1') end
end

local function enqueue(id)
  local class, client = get(id, 'class'), get(id, 'client')
  call('ZADD', P .. 'queue:' .. class .. ':' .. client, get(id, 'score'), id)
  if not call('ZSCORE', P .. 'active:' .. class, client) then
    local clock = tonumber(call('GET', P .. 'clock:' .. class) or 0)
    local finish = tonumber(call('ZSCORE', P .. 'finish:' .. class, client) or 0)
    call('ZADD', P .. 'active:' .. class, math.max(clock, finish), client)
  end
  call('SADD', P .. 'classes', class)
  wake(class)
end

local function retire(class, client) -- the client's queue may have become empty
  if call('EXISTS', P .. 'queue:' .. class .. ':' .. client) == 1 then return end
  local start = call('ZSCORE', P .. 'active:' .. class, client)
  if not start then return end
  call('ZREM', P .. 'active:' .. class, client)
  call('ZADD', P .. 'finish:' .. class, start, client)
end

local function unqueue(id)
  local class, client = get(id, 'class'), get(id, 'client')
  if call('ZREM', P .. 'queue:' .. class .. ':' .. client, id) == 1 then retire(class, client) end
end

local function unlease(id)
  call('ZREM', P .. 'leases', id)
  local worker = get(id, 'worker')
  if worker then call('SREM', P .. 'held:' .. worker, id) end
end

-- Ends and hand-backs ----------------------------------------------------------------------------

local function announce(batch, id)
  local b = P .. 'batch:' .. batch
  call('RPUSH', b .. ':events', id)
  if call('HINCRBY', b, 'done', 1) == tonumber(call('HGET', b, 'total')) then
    call('ZADD', P .. 'expiry', NOW + TTL, 'batch:' .. batch)
  end
  call('PUBLISH', P .. 'finished', batch)
end

local finish

-- Followers share a verdict, and the end of a task that kills workers; else they queue again.
local function settle_followers(id, to, reason, outcome, result)
  local shared = to == 'done' and outcome ~= 'infrastructure'
  local pointer = P .. 'content:' .. get(id, 'content')
  if not shared and call('GET', pointer) == id then call('DEL', pointer) end
  for _, follower in ipairs(call('LRANGE', P .. 'followers:' .. id, 0, -1)) do
    if get(follower, 'state') == 'queued' and get(follower, 'leader') == id then
      call('HDEL', P .. 'task:' .. follower, 'leader')
      if shared or reason == 'retries' then
        count('shared')
        finish(follower, to, reason, outcome, result)
      else
        enqueue(follower)
      end
    end
  end
  call('DEL', P .. 'followers:' .. id)
end

function finish(id, to, reason, outcome, result)
  if get(id, 'state') == 'queued' then unqueue(id) else unlease(id) end
  move(id, to)
  put(id, 'finished', NOW, 'reason', reason, 'outcome', outcome, 'result', result)
  charge(id, #result)
  count(to)
  local client = get(id, 'client')
  if call('HINCRBY', P .. 'open', client, -1) <= 0 then call('HDEL', P .. 'open', client) end
  call('ZREM', P .. 'deadlines', id)
  call('ZADD', P .. 'expiry', NOW + TTL, 'task:' .. id)
  call('LPUSH', P .. 'recent', id)
  call('LTRIM', P .. 'recent', 0, 199)
  for batch in string.gmatch(get(id, 'batches'), '%S+') do announce(batch, id) end
  settle_followers(id, to, reason, outcome, result)
end

local function back_to_queue(id)
  unlease(id)
  move(id, 'queued')
  count('requeued')
  enqueue(id)
end

local function infrastructure_failure(id, detail, outcome, result)
  put(id, 'detail', detail)
  local failures = call('HINCRBY', P .. 'task:' .. id, 'failures', 1)
  if failures > config('max_failures', 3) then
    finish(id, 'dead', 'retries', outcome, result)
  else
    back_to_queue(id)
  end
end

local function holds(id, token)
  return LIVE[get(id, 'state') or ''] and get(id, 'attempts') == token
end

-- Why a task was not finished in time; SILENT ms without a word, and a worker counts as gone.
local SILENT = 120000
local function why_late(id)
  local class, submitted = get(id, 'class'), tonumber(get(id, 'submitted'))
  if LIVE[get(id, 'state')] then return 'a worker had it, and had not finished it' end
  if get(id, 'leader') then return 'an identical evaluation, which it waited for, had not ended' end
  local since, all = {}, call('HGETALL', P .. 'served')
  for i = 1, #all, 2 do
    if tonumber(all[i + 1]) >= submitted then since[#since + 1] = all[i] end
  end
  table.sort(since)
  local last = tonumber(call('HGET', P .. 'served', class) or 0)
  if last < submitted then
    local seen = #since > 0 and 'workers of ' .. table.concat(since, ', ') .. ' were' or 'no worker at all was'
    return 'no worker of class ' .. class .. ' has been connected since it was submitted; ' .. seen
      .. '. Start one (kernelgym worker), or submit to a class that is served (kernelgym workers)'
  end
  local away = NOW - last
  if away > SILENT then
    return 'the last worker of class ' .. class .. ' was heard of ' .. math.floor(away / 1000) .. ' s before'
  end
  return 'no worker of class ' .. class .. ' was free in time'
end

local function too_late(id)
  if get(id, 'failures') == '0' then put(id, 'detail', why_late(id)) end
  finish(id, 'dead', 'deadline', '', '')
end

-- Content ----------------------------------------------------------------------------------------

-- True when another task with the same content has answered for this one, or is being evaluated.
-- One that only waits is not followed at submission: its client's queue may be the longer one.
local function answered(id, claiming)
  if get(id, 'force') == '1' then return false end
  local pointer = P .. 'content:' .. get(id, 'content')
  local leader = call('GET', pointer)
  local state = leader and leader ~= id and get(leader, 'state')
  if state == 'done' then
    count('shared')
    finish(id, 'done', '', get(leader, 'outcome'), get(leader, 'result'))
    return true
  elseif state and (LIVE[state] or (claiming and state == 'queued')) then
    put(id, 'leader', leader)
    call('RPUSH', P .. 'followers:' .. leader, id)
    return true
  end
  if claiming then call('SET', pointer, id) end
  return false
end

local function remember(id, outcome)
  if outcome == 'infrastructure' then return end
  local pointer = P .. 'content:' .. get(id, 'content')
  local owner = call('GET', pointer)
  local state = owner and owner ~= id and get(owner, 'state')
  if not state or state == 'done' then call('SET', pointer, id) end
end


--@ when links

-- ================================================================ requests and replies

-- Filled while packets are read for the first time, in order; later, packets are shown in any order. Requests that find
-- their replies by order wait in a list, others under what they have in common with their replies.
local requests, partners = {}, {}

-- What a message does in exchanges, if anything: the last step whose conditions hold.
local function step_of(c, pinfo)
    local steps = c.message.steps or {}
    for index = #steps, 1, -1 do
        local step, all_hold = steps[index], true
--@ when when
        c.values.direction = c.values.direction or direction(pinfo)
        for _, condition in ipairs(step.when or {}) do
            all_hold = all_hold and holds(c, condition, earlier(c, c.values, condition.field))
        end
--@ end
        if all_hold then return step.group and step end
    end
end

-- What a request and its replies have in common: connection, requester, kind of reply, correlation. Nothing if there is
-- none.
local function link_key(c, pinfo, step)
    local side = step.reply and tostring(pinfo.dst) .. ":" .. pinfo.dst_port
        or tostring(pinfo.src) .. ":" .. pinfo.src_port
    local key = { connection(pinfo), side, step.group }
    if c.message.correlation then
        local found = earlier(c, c.values, c.message.correlation)
        if type(found) == "table" then
            if not found.length or found.length == 0 then return nil end
            found = c.tvb:raw(found.at, found.length)
        end
        if found == nil then return nil end
        key[4] = tostring(found)
    end
    return table.concat(key, "|")
end

-- A reply with a correlation belongs to the latest request that has it; in order, and without one, to the oldest.
local function request_for(c, key)
    local waiting = requests[key] or {}
    if c.message.correlation and not c.message.in_order then return waiting[#waiting] end
    return table.remove(waiting, 1)
end

local function note_link(c, pinfo, step, place)
    local key = link_key(c, pinfo, step)
    if not key then return end
    if step.reply then
        local request = request_for(c, key)
        if request then
            partners[place] = request.number
            partners[request.place] = partners[request.place] or pinfo.number
        end
        return
    end
    local waiting = requests[key]
    if not waiting or (c.message.correlation and not c.message.in_order) then waiting = {} end
    waiting[#waiting + 1] = { number = pinfo.number, place = place }
    requests[key] = waiting
end

-- Shows in which packet the partner of this message is, as far as packets were read.
local function show_link(c, pinfo, root, tvb, at)
    local step = step_of(c, pinfo)
    if not step then return end
    local place = pinfo.number .. ":" .. at
    if not pinfo.visited then note_link(c, pinfo, step, place) end
    local number = partners[place]
    if number then root:add(F[step.reply and "request_in" or "reply_in"], tvb(at, 0), number):set_generated() end
end
--@ end

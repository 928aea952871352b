--@ when links

-- ================================================================ requests and replies

-- Filled while packets are read for the first time, in order; later, packets are shown in any order.
local requests, partners = {}, {}

-- What a request and its replies have in common: connection, requester, correlation. Nothing if there is none.
local function link_key(c, pinfo, code)
    local found = reach(c.values, c.message.correlation)
    if found == nil then return nil end
    if type(found) == "table" then
        if not found.length or found.length == 0 then return nil end
        found = c.tvb:raw(found.at, found.length)
    end
    local side = c.message.is_reply and tostring(pinfo.dst) .. ":" .. pinfo.dst_port
        or tostring(pinfo.src) .. ":" .. pinfo.src_port
    return table.concat({ connection(pinfo), side, code, tostring(found) }, "|")
end

local function note_link(c, pinfo, place)
    if c.message.is_reply then
        local key = link_key(c, pinfo, c.message.code)
        local request = key and requests[key]
        if request then
            partners[place] = request.number
            partners[request.place] = partners[request.place] or pinfo.number
        end
    elseif c.message.reply then
        local key = link_key(c, pinfo, c.message.reply)
        if key then requests[key] = { number = pinfo.number, place = place } end
    end
end

-- Shows in which packet the partner of this message is, as far as packets were read.
local function show_link(c, pinfo, root, tvb, at)
    local place = pinfo.number .. ":" .. at
    if not pinfo.visited then note_link(c, pinfo, place) end
    local number = partners[place]
    if number and (c.message.is_reply or c.message.reply) then
        root:add(F[c.message.is_reply and "request_in" or "reply_in"], tvb(at, 0), number):set_generated()
    end
end
--@ end

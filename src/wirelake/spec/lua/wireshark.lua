
-- ================================================================ what Wireshark calls

local function show_fault(root, tvb, at, fault)
    local offset = math.min(at + fault.offset, tvb:len())
    local item = root:add(F["malformed.rule"], tvb(offset, 0), fault.rule)
    item:set_generated()
    root:add(F["malformed.path"], tvb(offset, 0), fault.path):set_generated()
    root:add(F["malformed.offset"], tvb(offset, 0), fault.offset):set_generated()
    local where = fault.path == "" and "" or fault.path .. " "
    item:add_proto_expert_info(E.malformed, ("malformed: %s (%sat byte %d)"):format(fault.rule, where, fault.offset))
end

-- Says in the tree and in the packet list what was found; a packet may hold several messages.
local function tell(pinfo, root, text)
    root:append_text(": " .. text)
    if tostring(pinfo.cols.protocol) == NAME:upper() then
        pinfo.cols.info:append(", " .. text)
    else
        pinfo.cols.protocol = NAME:upper()
        pinfo.cols.info = text
    end
    pinfo.cols.info:fence()
end

-- Name and address of a message.
local function title(c)
    local text = c.message.name
    local address = c.message.address and earlier(c, c.values, c.message.address)
    if type(address) == "number" then return ("%s %d"):format(text, address) end
    if not address or not address.length or address.length == 0 then return text end
    local range = c.tvb(address.at, address.length)
    return text .. " " .. (address.is_text and range:string(ENC_UTF_8) or tostring(range:bytes()))
end

local function show_settings(root, tvb, at, layout)
    for _, option in ipairs(OPTIONS) do
        if layout.shown[option.name] then
            root:add(F[option.name], tvb(at, 0), layout.shown[option.name]):set_generated()
        end
    end
end

-- Shows bytes up to `behind` that are no message, and why.
local function show_bad(tvb, pinfo, root, at, behind, fault)
    root:set_len(behind - at)
    show_fault(root, tvb, at, fault)
    tell(pinfo, root, "[malformed: " .. fault.rule .. "]")
    return behind
end

-- Shows the beginning of a frame that is given up, because its rest will not come; nothing while it may.
local function give_up(tvb, pinfo, tree, at, layout)
    local stop = tvb:len()
    local behind = proto.prefs.resume and resumes(tvb, pinfo, at, stop)
    if not behind then return nil end
    local path = layout.size and layout.size.name or ""
    local fault = { rule = "frame_incomplete", path = path, offset = stop - at }
    return show_bad(tvb, pinfo, tree:add(proto, tvb(at, behind - at)), at, behind, fault)
end

-- Shows the frame at `at`; returns where the next one begins, or nothing and how many bytes are missing.
local function dissect_frame(tvb, pinfo, tree, at)
    local stop = tvb:len()
--@ when states
    find_state(pinfo, tvb, at)
--@ end
    local layout, missing = reading(tvb, pinfo, at, stop)
    if not layout then return nil, missing end
    local h, fault = attempt(measure, layout, tvb, at, stop)
    if not h and not fault then return give_up(tvb, pinfo, tree, at, layout), DESEGMENT_ONE_MORE_SEGMENT end
    if h and at + h.length > stop then
        -- While it may yet be given up, every segment is looked at.
        local behind = give_up(tvb, pinfo, tree, at, layout)
        local is_short = proto.prefs.resume and stop - at <= MOST_BEHIND
        return behind, is_short and DESEGMENT_ONE_MORE_SEGMENT or at + h.length - stop
    end

    local behind = h and at + h.length or stop
    local root = tree:add(proto, tvb(at, behind - at))
    show_settings(root, tvb, at, layout)
    local c
    if h then
        c = cursor(layout, tvb, at, h, root)
        local _, found = attempt(read_frame, c)
        fault = found
        if c.message then tell(pinfo, root, title(c)) end
--@ when links
        if not fault then show_link(c, pinfo, root, tvb, at) end
--@ end
    end
    if not fault then
--@ when auto
        learn(pinfo, layout)
--@ end
--@ when states
        follow(pinfo, c)
--@ end
        return behind
    end

    -- A bad frame costs itself if another seems to follow; otherwise its length is not believed either.
    if not h or not follows(choices_of(pinfo), tvb, behind, stop) then
--@ when states
        lose_state(pinfo, layout)
--@ end
        behind = search(tvb, pinfo, at + 1, stop)
    end
    return show_bad(tvb, pinfo, root, at, behind, fault)
end

-- Asks for the rest of the frame at `at`, or says that it cannot be had.
local function wait_for(tvb, pinfo, tree, at, missing)
    if pinfo.can_desegment > 0 and tvb:len() == tvb:reported_len() then
        pinfo.desegment_offset = at
        pinfo.desegment_len = missing
        return
    end
    tree:add(proto, tvb(at)):add_proto_expert_info(E.incomplete)
end

function proto.dissector(tvb, pinfo, tree)
    local at = 0
    while at < tvb:len() do
        local behind, fault, missing = attempt(dissect_frame, tvb, pinfo, tree, at)
        if fault then
            tree:add(proto, tvb(at)):add_proto_expert_info(E.malformed, fault.rule .. ": " .. fault.path)
            return tvb:len()
        elseif not behind then
            wait_for(tvb, pinfo, tree, at, missing)
            return tvb:len()
        end
        at = behind
    end
    return at
end

-- On request only: a stream on any port whose first bytes are one whole, clean frame, and another seems to follow.
local function heuristic(tvb, pinfo, tree)
    if not proto.prefs.any_port then return false end
    local stop = tvb:len()
    for _, layout in ipairs(readings()) do
        local h = plausible(layout, tvb, 0, stop) and attempt(measure, layout, tvb, 0, stop)
        if h and h.length >= 8 and h.length <= stop and judge(layout, tvb, 0, h)
            and follows(readings(), tvb, h.length, stop) then
            pinfo.conversation = proto
            proto.dissector(tvb, pinfo, tree)
            return true
        end
    end
    return false
end

-- ---------------------------------------------------------------- preferences

for _, option in ipairs(OPTIONS) do
    if option.values then
        local choices, default = {}, 1
        for index, setting in ipairs(option.values) do
            choices[index] = { setting, setting, index }
            if setting == option.default then default = index end
        end
        proto.prefs[option.name] = Pref.enum(option.name, default, option.doc, choices, false)
    else
        proto.prefs[option.name] = Pref.bool(option.name, option.default, option.doc)
    end
end
for _, port in ipairs(PORTS) do
    proto.prefs[port.name] = Pref.range(port.title, port.range, "Ports whose streams are " .. NAME, 65535)
end
proto.prefs.resume = Pref.bool(
    "Resume behind false lengths", true,
    "Give up a frame whose rest is missing while several whole, clean frames stand behind its beginning")
proto.prefs.any_port = Pref.bool(
    "Look on any port", false, "Try every TCP stream: one that begins with a whole, clean frame is taken for " .. NAME)

local listening = {}

local function listen()
    for _, port in ipairs(PORTS) do
        local ports = DissectorTable.get(port.table)
        local before, now = listening[port.name], tostring(proto.prefs[port.name])
        if now ~= before then
            if before and before ~= "" then ports:remove(before, proto) end
            if now ~= "" then ports:add(now, proto) end
            listening[port.name] = now
        end
    end
end

function proto.prefs_changed()
    layouts = nil
    listen()
end

function proto.init()
    layouts = nil
--@ when auto
    proved = {}
--@ end
--@ when links
    requests, partners = {}, {}
--@ end
--@ when states
    state_now, states_at = {}, {}
--@ end
--@ when links sides states
    dialled = {}
--@ end
end

listen()
DissectorTable.get("tcp.port"):add_for_decode_as(proto)
proto:register_heuristic("tcp", heuristic)

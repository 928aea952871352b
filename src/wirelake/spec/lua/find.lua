
-- ================================================================ where frames begin

--@ when code

local function code_part(layout)
    for _, part in ipairs(layout.frame) do
        if part.kind == "code" then return part end
    end
end
--@ end
--@ when words

-- Whether one of the messages' words, with its separator, begins here.
local function plausible_line(layout, tvb, start, frame_stop, stop)
    if layout.other then return true end
    local undecided = false
    for _, part in ipairs(layout.frame) do
        for _, message in ipairs(part.kind == "line" and layout.messages or {}) do
            local word = message.word .. part.separator
            local size = math.min(frame_stop, start + #word) - start
            local given = size > 0 and tvb:raw(start, size) or ""
            if part.fold then word, given = word:lower(), given:lower() end
            if given == word then return true end
            undecided = undecided or (word:sub(1, #given) == given and frame_stop == stop)
        end
    end
    if undecided then return nil end
    return false
end
--@ end

-- Whether a frame seems to begin at `start`; nothing: too few bytes to tell.
local function plausible(layout, tvb, start, stop)
    local h, fault = attempt(measure, layout, tvb, start, stop)
    if fault then return false end
    if not h then return nil end
    layout = h.layout
--@ when words
    local frame_stop = math.min(stop, start + h.length)
--@ when ends
    if layout.frame[#layout.frame].kind == "ends" then return true end
--@ end
    if not h.code_at then return plausible_line(layout, tvb, start + h.payload, frame_stop, stop) end
--@ end
    if h.mask_at then return true end
    local payload = (h.stop or h.length) - h.payload
--@ when codes
    if h.key then return payload >= message_of(layout, h.key).least end
--@ end
--@ when code
    local part = code_part(layout)
    if part then
        if h.code_at + code_size(part.wire) > h.available then return nil end
        local message = message_of(layout, code_at(tvb, part.wire, start + h.code_at))
        return message ~= nil and payload >= message.least
    end
--@ end
    return payload >= layout.messages[1].least
end

-- Whether a frame seems to begin at `at`, or nothing tells that none does.
local function follows(choices, tvb, at, stop)
    for _, layout in ipairs(choices) do
        if at >= stop or plausible(layout, tvb, at, stop) ~= false then return true end
    end
    return false
end
--@ when auto

-- ---------------------------------------------------------------- which reading a connection has

-- The readings whose header is not bad, shortest frame first; whether a header is cut off; and, where all are bad, the one
-- that reads further than the others, which was proved before it failed.
local function possible(tvb, at, stop)
    local found, is_cut, furthest, furthest_at = {}, false, nil, -1
    for index, layout in ipairs(readings()) do
        local h, fault = attempt(measure, layout, tvb, at, stop)
        is_cut = is_cut or not (h or fault)
        if fault and fault.offset >= furthest_at then
            furthest = fault.offset > furthest_at and layout or nil
            furthest_at = fault.offset
        end
        if not fault then found[#found + 1] = { index = index, layout = layout, header = h or { length = 0 } } end
    end
    table.sort(found, function(a, b)
        if a.header.length ~= b.header.length then return a.header.length < b.header.length end
        return a.index < b.index
    end)
    return found, is_cut, furthest
end

-- All readings agree on the length: the only one that is clean, or the only one that leaves no bytes over.
local function by_content(found, tvb, at)
    local clean, full = {}, {}
    for _, one in ipairs(found) do
        local is_clean, fault = judge(one.layout, tvb, at, one.header)
        if is_clean then clean[#clean + 1] = one.layout end
        if not fault or fault.body_only or fault.rule ~= "leftover_bytes" then full[#full + 1] = one.layout end
    end
    if #clean == 1 then return clean[1] end
    return #full == 1 and full[1] or nil
end

-- The shorter reading is right if its frame is clean, or if only its body is bad and a frame follows; else the longest.
local function by_length(found, tvb, at, stop)
    local short, long = found[1], found[#found]
    local is_clean, fault = judge(short.layout, tvb, at, short.header)
    if is_clean then return short.layout end
    for _, layout in ipairs(readings()) do
        if fault and fault.body_only and plausible(layout, tvb, at + short.header.length, stop) then
            return short.layout
        end
    end
    return long.layout
end

-- The reading that the frame at `at` proves, if any; and how many bytes are missing before that can be said.
local function detect(tvb, at, stop)
    local found, is_cut, furthest = possible(tvb, at, stop)
    if #found == 0 then return furthest end
    if #found == 1 then return found[1].layout end
    if is_cut then return nil, DESEGMENT_ONE_MORE_SEGMENT end
    local missing = found[1].header.length - (stop - at)
    if missing > 0 then return nil, missing end
    if found[1].header.length == found[#found].header.length then return by_content(found, tvb, at) end
    return by_length(found, tvb, at, stop)
end

local proved = {}
--@ end
--@ when auto links sides states

local stream_number = Field.new("tcp.stream")

-- Both directions of a connection share a reading.
local function connection(pinfo)
    local numbers = { stream_number() }
    if #numbers > 0 then return tostring(numbers[#numbers]) end
    local ends = { tostring(pinfo.src) .. ":" .. pinfo.src_port, tostring(pinfo.dst) .. ":" .. pinfo.dst_port }
    table.sort(ends)
    return table.concat(ends, " ")
end
--@ end
--@ when links sides states

local dialled = {}

-- Which way a message goes: by the port whose streams are read, else the side that sends first is the client.
local function direction(pinfo)
    local source, target = pinfo.src_port, pinfo.dst_port
    if source ~= target and target == pinfo.match_uint then return "to_server" end
    if source ~= target and source == pinfo.match_uint then return "to_client" end
    local client = tostring(pinfo.src) .. ":" .. source
    local number = connection(pinfo)
    dialled[number] = dialled[number] or client
    return dialled[number] == client and "to_server" or "to_client"
end
--@ end
--@ when sides

-- The reading for the side that sends: the client's is the first.
local function reading_of_side(pinfo)
    return readings()[direction(pinfo) == "to_server" and 1 or 2]
end
--@ end

--@ when states

-- The state of the stream whose frames are read: which of them may come. Wireshark reads packets once more, in any
-- order, so the state at each frame is remembered.
local state_now, states_at, state = {}, {}, nil

local function stream_of(pinfo)
    return connection(pinfo) .. " " .. direction(pinfo)
end

-- Find the state of the stream at a frame; nothing: that with which streams begin.
local function find_state(pinfo, tvb, at)
    local place = ("%d/%d/%d/%d"):format(pinfo.number, at, tvb:len(), tvb:offset())
    if not pinfo.visited or states_at[place] == nil then states_at[place] = state_now[stream_of(pinfo)] or false end
    state = states_at[place]
end

local function in_state(layout)
    return state and layout.by_state[state] or layout
end

local function set_state(pinfo, following)
    state = following
    if not pinfo.visited then state_now[stream_of(pinfo)] = following end
end

-- Follow a message to the frames that come next.
local function follow(pinfo, c)
    c.halves = {}
    for _, row in ipairs(c.message.following or {}) do
        if not row.when or when[row.when.kind](c, row.when, c.values) then return set_state(pinfo, row.state) end
    end
end

-- Behind lost bytes any frame may come, but where they are opaque anyway.
local function lose_state(pinfo, layout)
    local is_opaque = #layout.others > 0 and layout.unseen
    for _, other in ipairs(layout.others) do
        is_opaque = is_opaque and other.frame[#other.frame].kind == "opaque"
    end
    if not is_opaque then set_state(pinfo, "any") end
end
--@ end

-- The reading for the frame at `at`; or nothing, and how many bytes are missing before it is known.
local function reading_of(tvb, pinfo, at, stop)
--@ when sides
    if #readings() > 1 then return reading_of_side(pinfo) end
--@ end
--@ when auto
    if #readings() > 1 then
        local known = proved[connection(pinfo)]
        if known then return known end
        local layout, missing = detect(tvb, at, stop)
        if layout or missing then return layout, missing end
    end
--@ end
    return readings().fallback
end

local function reading(tvb, pinfo, at, stop)
    local layout, missing = reading_of(tvb, pinfo, at, stop)
--@ when states
    layout = layout and in_state(layout)
--@ end
    return layout, missing
end

-- The readings that the frames of a connection may have.
local function choices_of(pinfo)
--@ when states
    local known = reading(nil, pinfo)
    if known then return { known } end
--@ end
--@ when sides
    if #readings() > 1 then return { reading_of_side(pinfo) } end
--@ end
--@ when auto
    local known = proved[connection(pinfo)]
    if known then return { known } end
--@ end
    return readings()
end
--@ when auto

-- A good frame proves its reading, unless every reading sees the same in it.
local function learn(pinfo, layout)
    if layout ~= readings().fallback then proved[connection(pinfo)] = layout end
end
--@ end

local MAX_SEARCH = 2 ^ 18

-- The next place from `at` on whose first bytes look like a frame's, where `raw` begins at `base`; nothing if none does.
local function next_place(choices, raw, base, at)
    local nearest
    local function look_for(layout)
        local place = raw:find(layout.sieve, at - base + 1)
        -- Behind the last place the bytes of a frame may be cut off.
        place = place or math.max(at - base + 1, #raw - layout.sieve_width + 2)
        if place <= #raw then nearest = math.min(nearest or place, place) end
    end
    for _, layout in ipairs(choices) do
        if not layout.unseen then look_for(layout) end
        for _, other in ipairs(layout.others) do look_for(other) end
    end
    return nearest and base + nearest - 1
end

-- The end of the whole, clean frame at `at`; nothing if there is none.
local function clean_end(choices, tvb, pinfo, at, stop)
    if not follows(choices, tvb, at, stop) then return nil end
    local layout = reading(tvb, pinfo, at, stop) or readings().fallback
    local h = attempt(measure, layout, tvb, at, stop)
    local is_whole = h and at + h.length <= stop and plausible(layout, tvb, at, stop)
    return is_whole and judge(layout, tvb, at, h) and at + h.length or nil
end

-- The next position where a whole, clean frame begins and another seems to follow; else the end.
local function search(tvb, pinfo, from, stop)
    if from >= stop then return stop end
    local choices, last = choices_of(pinfo), math.min(stop, from + MAX_SEARCH)
    local raw = tvb:raw(from, last - from)
    local at = next_place(choices, raw, from, from)
    while at do
        local behind = clean_end(choices, tvb, pinfo, at, stop)
        if behind and follows(choices, tvb, behind, stop) then return at end
        at = next_place(choices, raw, from, at + 1)
    end
    return stop
end

-- A length may be false: Wireshark cannot tell that its bytes will never come. So a frame is given up whose rest is
-- missing while several whole, clean frames stand behind its beginning, the last of which ends where the bytes do. The
-- same byte over and over proves nothing, even where it reads as short frames.
local FRAMES_BEHIND, MOST_BEHIND = 3, 2 ^ 14

local function frames_behind(choices, tvb, pinfo, at, stop)
    local count = 0
    while at and at < stop do
        at = clean_end(choices, tvb, pinfo, at, stop)
        count = count + 1
    end
    return at and count or 0
end

-- Where the frames begin that stand behind the beginning of an unfinished one at `at`; nothing if there are none.
local function resumes(tvb, pinfo, at, stop)
    if stop - at < 2 or stop - at > MOST_BEHIND then return nil end
    local choices, from = choices_of(pinfo), at + 1
    local raw = tvb:raw(from, stop - from)
    local place, varied = next_place(choices, raw, from, from), #raw
    while varied > 0 and raw:byte(varied) == raw:byte(-1) do varied = varied - 1 end
    while place and place - from < varied do
        if frames_behind(choices, tvb, pinfo, place, stop) >= FRAMES_BEHIND then return place end
        place = next_place(choices, raw, from, place + 1)
    end
end

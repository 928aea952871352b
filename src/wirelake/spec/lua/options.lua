
-- ================================================================ reading options

local function settings()
    local chosen = {}
    for _, option in ipairs(OPTIONS) do
        local set = proto.prefs[option.name]
        if option.values then set = option.values[set] end
        chosen[option.name] = set
    end
    return chosen
end

-- A table of the declaration without what other settings choose.
local function settle(node, chosen)
    if type(node) ~= "table" then return node end
    if node.choose then return settle(node.cases[chosen[node.choose]], chosen) end
    if node.setting then return chosen[node.setting] end
    local made = {}
    for key, inner in pairs(node) do
        if type(key) ~= "number" then made[key] = settle(inner, chosen) end
    end
    for _, inner in ipairs(node) do
        local only = type(inner) == "table" and inner.only
        if not only or chosen[only.option] == only.is then made[#made + 1] = settle(inner, chosen) end
    end
    return made
end

-- ---------------------------------------------------------------- what the first bytes of a frame look like

local function escaped(text)
    return (text:gsub("[^%w]", "%%%0"))
end

-- One byte of a whole number, at a place that counts from 1.
local function byte_of(whole, wire, place)
    local shift = wire.little and place - 1 or wire.size - place
    return string.char(math.floor(whole % 2 ^ (8 * wire.size) / 2 ^ (8 * shift)) % 0x100)
end

-- Any of the bytes that stand at a place of a code.
local function code_class(layout, wire, place)
    if layout.other then return "." end
    local known, class = {}, {}
    for code in pairs(layout.by_code) do known[byte_of(code, wire, place)] = true end
    for char in pairs(known) do class[#class + 1] = escaped(char) end
    return "[" .. table.concat(class) .. "]"
end

-- Zeros where a limit leaves nothing else, then any bytes.
local function bounded_class(wire, most)
    local class = ""
    for place = 1, wire.size do
        local shift = wire.little and place - 1 or wire.size - place
        class = class .. (most and not wire.signed and most < 2 ^ (8 * shift) and escaped("\0") or ".")
    end
    return class
end

local sieve_of = {}

function sieve_of.magic(layout, part) return escaped(part.value), #part.value end

function sieve_of.code(layout, part)
    if part.wire.kind ~= "int" or layout.beginnings[""] then return nil end
    local class = ""
    for place = 1, part.wire.size do class = class .. code_class(layout, part.wire, place) end
    return class, part.wire.size
end

function sieve_of.size(layout, part)
    if part.wire.kind == "int" then return bounded_class(part.wire, part.most), part.wire.size end
end

sieve_of.head = sieve_of.size

function sieve_of.kept(layout, part)
    if part.size then return ("."):rep(part.size), part.size end
end

-- A pattern for the first bytes, as far as they have a fixed place, and how many it looks at.
local function make_sieve(layout)
    local pattern, width = "", 0
    for _, part in ipairs(layout.frame) do
        local class, size
        if sieve_of[part.kind] then class, size = sieve_of[part.kind](layout, part) end
        if not class then break end
        pattern, width = pattern .. class, width + size
    end
    if width == 0 then return ".", 1 end
    return pattern, width
end

-- Whether a field of messages travels in the header of their frame.
local function is_in_header(layout, name)
    for _, part in ipairs(layout.frame) do
        if part.kind == "kept" and part.name == name then return true end
        if part.kind == "escaped" and part.mask_bit ~= 0 and part.mask_key == name then return true end
        if part.kind == "code" and part.name == name and layout.other then return true end
    end
    return false
end

local function add_message(layout, message)
    layout.messages[#layout.messages + 1] = message
    if message.is_other then layout.other = message end
    if message.code then layout.by_code[message.code] = message end
--@ when codes
    local key = ""
    for _, code in ipairs(message.codes or {}) do
        layout.beginnings[key] = true
        key = ("%s/%.0f"):format(key, code)
    end
    if message.codes then layout.by_code[key] = message end
--@ end
end

-- One kind of frame and its messages.
local function make_frame(frame, place, messages, shown)
    local layout = { frame = frame, place = place, shown = shown, messages = {}, by_code = {}, beginnings = {}, others = {} }
    for _, part in ipairs(frame) do
        if part.kind == "size" or part.kind == "escaped" or part.kind == "said" then layout.size = layout.size or part end
    end
    for _, message in ipairs(messages) do
        if (message.frame or "") == place then add_message(layout, message) end
    end
    for _, message in ipairs(layout.messages) do
        message.least = 0
        for _, row in ipairs(message.fields) do
            if not row.when and not is_in_header(layout, row.name) then message.least = message.least + least(row.wire) end
        end
    end
    layout.sieve, layout.sieve_width = make_sieve(layout)
    return layout
end

-- Whether the side that sends has frames of this kind.
local function is_sent(only, chosen)
    return not only or not only.option or chosen[only.option] == only.is
end

-- Whether frames of this kind may come in a state of the stream.
local function may_come(place, state)
    local comes = true
--@ when states
    comes = contains(STATES[state], place)
--@ end
    return comes
end

local function make_one(chosen, shown, messages, state)
    local layout = make_frame(settle(FRAME, chosen), "", messages, shown)
    for _, other in ipairs(FRAMES) do
        local comes = is_sent(other.only, chosen) and may_come(other.place, state)
        local made = comes and make_frame(settle(other.frame, chosen), other.place, messages, shown)
        if made and made.messages[1] then layout.others[#layout.others + 1] = made end
    end
    layout.unseen = not (is_sent(FRAME_ONLY, chosen) and may_come("", state)) and #layout.others > 0
    return layout
end

local function make_layout(chosen, shown)
    local messages, layout = settle(MESSAGES, chosen), nil
--@ when states
    local by_state = {}
    for state in pairs(STATES) do
        by_state[state] = make_one(chosen, shown, messages, state)
        by_state[state].by_state = by_state
    end
    layout = by_state[chosen.state]
--@ end
    return layout or make_one(chosen, shown, messages)
end

local layouts

-- The readings among which the bytes decide, and the one in use until they have: both without choices.
local function readings()
    if layouts then return layouts end
    local chosen = settings()
    layouts = {}
    for _, option in ipairs(OPTIONS) do
        if option.fallback and chosen[option.name] == "auto" then
            for _, setting in ipairs(option.values) do
                if setting ~= "auto" then
                    chosen[option.name] = setting
                    layouts[#layouts + 1] = make_layout(chosen, { [option.name] = setting })
                end
            end
            chosen[option.name] = option.fallback
            layouts.fallback = make_layout(chosen, { [option.name] = "undecided" })
            return layouts
        end
    end
    local shown = {}
    for _, option in ipairs(OPTIONS) do shown[option.name] = option.fallback and chosen[option.name] end
    layouts[1] = make_layout(chosen, shown)
    layouts.fallback = layouts[1]
    return layouts
end

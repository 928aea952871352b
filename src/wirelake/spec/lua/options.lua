
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

local function make_layout(chosen, shown)
    local layout = { frame = settle(FRAME, chosen), messages = settle(MESSAGES, chosen), by_code = {}, shown = shown }
    for _, part in ipairs(layout.frame) do
        if part.kind == "size" or part.kind == "escaped" then layout.size = layout.size or part end
    end
    for _, message in ipairs(layout.messages) do
        layout.by_code[message.code] = message
        message.least = 0
        for _, row in ipairs(message.fields) do
            local in_header = false
            for _, part in ipairs(layout.frame) do
                in_header = in_header or (part.kind == "kept" and part.name == row.name)
                    or (part.kind == "escaped" and part.mask_bit ~= 0 and part.mask_key == row.name)
            end
            if not row.when and not in_header then message.least = message.least + least(row.wire) end
        end
    end
    return layout
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

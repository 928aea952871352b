--@ when words

-- ---------------------------------------------------------------- words of a header line

local patterns = {}

-- The groups of a pattern that must match the whole text; without the library every text is believed.
local function match_word(pattern, text)
    local rex = rex_pcre2
    if not rex then return { text:match("^%D*(%d+)") } end
    if not patterns[pattern] then
        local flags = rex.flags()
        patterns[pattern] = rex.new("\\A(?:" .. pattern .. ")\\z", (flags.UTF or 0) + (flags.UCP or 0))
    end
    local _, _, groups = patterns[pattern]:tfind(text)
    return groups
end

local function word_number(wire, digits)
    local sign, body = (digits or ""):lower():match("^([-+]?)0?x?(.*)$")
    local is_hex = (digits or ""):lower():find("x", 1, true)
    local found = tonumber(body == "" and "0" or body, is_hex and 16 or 10)
    if not found then return nil end
    if sign == "-" then found = -found end
    if found < (wire.low or 0) or (wire.high and found > wire.high) then return nil end
    return found
end

local function word_value(wire, text)
    local _, characters = text:gsub("[^\128-\191]", "")
    if wire.most and characters > wire.most then return nil end
    local groups = match_word(wire.pattern, text)
    if not groups then return nil end
    if wire.wide and not groups[1]:find("%D") then
        -- More digits than a number of Lua keeps.
        local digits = groups[1]:match("^0*(.*)$")
        local is_more = #digits > #wire.wide or (#digits == #wire.wide and digits > wire.wide)
        -- Lua rounds it, so only the digits are compared with the highest.
        local found = not is_more and word_number({ low = wire.low }, digits) or nil
        return found, UInt64.new(digits == "" and "0" or digits)
    end
    if wire.number then return word_number(wire, groups[1]) end
    for _, group in ipairs(wire.parts_most and groups or {}) do
        if group and (tonumber(group) or 0) > wire.parts_most then return nil end
    end
    return text
end

-- Whether a word is absent, because those that are left belong to later fields.
local function is_left_out(c, wire, path)
    if wire.optional then return #c.words <= c.words_needed end
    c.words_needed = c.words_needed - 1
    if not c.words[1] then fail(c, "missing_fields", path, c.at) end
    return false
end

function read.word(c, wire, field, path)
    if c.words_needed and is_left_out(c, wire, path) then return nil end
    local word = table.remove(c.words, 1)
    if not word and not wire.optional then fail(c, "missing_fields", path, c.at) end
    if word and wire.all then
        local last = c.words[#c.words] or word
        word = { at = word.at, raw = raw_bytes(c, word.at, last.at + #last.raw - word.at) }
        c.words = {}
    end
    if not word or (word.raw == "" and wire.optional) then return nil end
    if wire.codes and not contains(wire.codes, c.code) then fail(c, wire.only_rule, path, word.at) end
    local found, wide = word_value(wire, replaced(word.raw))
    if found == nil then fail(c, wire.rule, path, word.at) end
    if not wire.number then
        show_text(c, field, word.at, #word.raw)
    elseif c.tree then
        c.tree:add(F[field], c.tvb(word.at, #word.raw), wide or (wire.wide and UInt64.new(found)) or found)
    end
    return wire.number and found or { at = word.at, length = #word.raw, is_text = true }
end

local function split_line(c, line)
    local raw = raw_bytes(c, c.at, math.min(line.window, c.stop - c.at))
    local stop = raw:find(line.stop, 1, true)
    if not stop and c.open and #raw < line.window then fail(c, "no_newline", "", c.at, true) end
    if not stop then fail(c, "no_newline", "", c.at + #raw) end
    local words, from = {}, 1
    while from do
        local mark = raw:find(line.separator, from, true)
        local till = mark and mark < stop and mark or stop
        words[#words + 1] = { at = c.at + from - 1, raw = raw:sub(from, till - 1) }
        from = till < stop and till + #line.separator or nil
    end
    return words, c.at + stop - 1 + #line.stop
end

-- The message whose word opens the line.
local function read_line(c, line)
    local words, behind = split_line(c, line)
    if #words < line.fewest then fail(c, "missing_fields", "", c.at) end
    if line.most and #words > line.most then fail(c, "extra_fields", "", words[line.most + 1].at) end
    local first = words[1]
    local given = replaced(first.raw)
    local folded = given:gsub("\226\132\170", "k"):lower() -- the Kelvin sign is a k in lower case
    local found
    for _, message in ipairs(c.layout.messages) do
        local word = not message.is_other and message.word
        if word and (word == given or (line.fold and word:lower() == folded)) then found = message break end
    end
    if found then
        if c.tree then c.tree:add(F[line.code], c.tvb(first.at, #first.raw), found.word) end
        table.remove(words, 1)
    end
    found = found or c.layout.other
    if not found then fail(c, line.code_rule, line.code, first.at) end
    c.words, c.words_end, c.at = words, line.most ~= nil or line.skip, behind
    if line.skip then
        c.words_needed = 0
        for _, row in ipairs(found.fields) do
            local is_needed = row.wire.kind == "word" and not row.wire.optional
            if is_needed then c.words_needed = c.words_needed + 1 end
        end
    end
    return found
end
--@ end

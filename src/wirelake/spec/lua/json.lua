--@ when json

-- ---------------------------------------------------------------- JSON

local JSON_DEPTH = 256
local NULL = {}
local UNESCAPED = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }
local LITERALS = { { "true", true }, { "false", false }, { "null", NULL } }
local json_value

-- `j` holds the text, the position `i`, and what a fault needs. Where octets were replaced, positions mean nothing.
local function json_fail(j)
    fail(j.c, "payload_json", j.path, j.is_exact and j.base + j.i - 1 or j.base)
end

local function json_space(j)
    j.i = j.text:find("[^ \t\n\r]", j.i) or #j.text + 1
end

local function json_text(j)
    local pieces, opened = {}, j.i
    j.i = j.i + 1
    while true do
        local plain = j.text:match('^[^\0-\31"\\]+', j.i)
        if plain then
            pieces[#pieces + 1] = plain
            j.i = j.i + #plain
        elseif j.text:sub(j.i, j.i) == '"' then
            j.i = j.i + 1
            return table.concat(pieces)
        elseif j.text:match("^\\u%x%x%x%x", j.i) then
            local code = tonumber(j.text:sub(j.i + 2, j.i + 5), 16)
            pieces[#pieces + 1] = code < 128 and string.char(code) or "?"
            j.i = j.i + 6
        else
            local escape = j.text:match("^\\(.)", j.i)
            if j.i > #j.text then j.i = opened end
            if not escape or not UNESCAPED[escape] then json_fail(j) end
            pieces[#pieces + 1] = UNESCAPED[escape]
            j.i = j.i + 2
        end
    end
end

local function json_number(j)
    if j.text:find("^NaN", j.i) or j.text:find("^-?Infinity", j.i) then fail(j.c, "payload_json", j.path, j.base) end
    local whole = j.text:match("^-?0", j.i) or j.text:match("^-?[1-9]%d*", j.i)
    if not whole then json_fail(j) end
    local tail = j.i + #whole
    tail = tail + #(j.text:match("^%.%d+", tail) or "")
    tail = tail + #(j.text:match("^[eE][-+]?%d+", tail) or "")
    local value = tonumber((j.text:sub(j.i, tail - 1)))
    j.i = tail
    return value or 1
end

-- Members of an object or elements of an array, up to the closing bracket.
local function json_members(j, closing, depth, read)
    if depth > JSON_DEPTH then json_fail(j) end
    local found = {}
    j.i = j.i + 1
    json_space(j)
    if j.text:sub(j.i, j.i) == closing then
        j.i = j.i + 1
        return found
    end
    while true do
        read(found)
        json_space(j)
        local mark = j.text:sub(j.i, j.i)
        if mark ~= closing and mark ~= "," then json_fail(j) end
        j.i = j.i + 1
        if mark == closing then return found end
        json_space(j)
    end
end

function json_value(j, depth)
    json_space(j)
    local lead = j.text:sub(j.i, j.i)
    if lead == "{" then
        return json_members(j, "}", depth, function(found)
            if j.text:sub(j.i, j.i) ~= '"' then json_fail(j) end
            local key = json_text(j)
            json_space(j)
            if j.text:sub(j.i, j.i) ~= ":" then json_fail(j) end
            j.i = j.i + 1
            found[key] = json_value(j, depth + 1)
        end), true
    elseif lead == "[" then
        return json_members(j, "]", depth, function(found) found[#found + 1] = json_value(j, depth + 1) end)
    elseif lead == '"' then
        return json_text(j)
    end
    for _, literal in ipairs(LITERALS) do
        if j.text:sub(j.i, j.i + #literal[1] - 1) == literal[1] then
            j.i = j.i + #literal[1]
            return literal[2]
        end
    end
    return json_number(j)
end

-- The members of the object that the text is, as far as they are not empty; nothing if it is no object.
local function read_json(c, path, at, raw)
    local text = replaced(raw)
    local j = { c = c, path = path, base = at, text = text, i = 1, is_exact = text == raw }
    local value, is_object = json_value(j, 1)
    json_space(j)
    if j.i <= #text then json_fail(j) end
    local full = {}
    for key, member in pairs(is_object and value or {}) do
        full[key] = member ~= NULL and member ~= false and member ~= "" and member ~= 0
    end
    return full
end
--@ end

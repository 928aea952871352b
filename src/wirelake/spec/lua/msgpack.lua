--@ when msgpack

-- ---------------------------------------------------------------- MessagePack, shown as JSON

local MAX_DEPTH = 256
local FIXED_SIZES = {
    [0xC0] = 0, [0xC2] = 0, [0xC3] = 0, [0xCA] = 4, [0xCB] = 8, [0xCC] = 1, [0xCD] = 2, [0xCE] = 4, [0xCF] = 8,
    [0xD0] = 1, [0xD1] = 2, [0xD2] = 4, [0xD3] = 8, [0xD4] = 2, [0xD5] = 3, [0xD6] = 5, [0xD7] = 9, [0xD8] = 17,
}
local SIZE_WIDTHS = {
    [0xC4] = 1, [0xC5] = 2, [0xC6] = 4, [0xC7] = 1, [0xC8] = 2, [0xC9] = 4, [0xD9] = 1, [0xDA] = 2, [0xDB] = 4,
}
local COUNT_WIDTHS = { [0xDC] = 2, [0xDD] = 4, [0xDE] = 2, [0xDF] = 4 }

local function hex(raw)
    return (raw:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end))
end

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function quote(text)
    local escaped = text:gsub('[\0-\31\127"\\]', function(byte)
        return ESCAPES[byte] or ("\\u%04x"):format(byte:byte())
    end)
    return '"' .. escaped .. '"'
end

local function text_json(raw)
    return first_bad(raw) and '{"hex":"' .. hex(raw) .. '"}' or quote(raw)
end

-- The fewest digits that give the same number again, always with a point or an exponent.
local function float_json(value)
    if value ~= value then return '"NaN"' end
    if value == 1 / 0 or value == -1 / 0 then return value > 0 and '"Infinity"' or '"-Infinity"' end
    local shown
    for digits = 14, 16 do
        shown = ("%." .. digits .. "e"):format(value)
        if tonumber(shown) == value then break end
    end
    local sign, whole, part, exponent = shown:match("^(-?)(%d)%D?(%d*)e([-+]%d+)$")
    local digits = (whole .. part):gsub("0+$", "")
    exponent = tonumber(exponent)
    if digits == "" then return sign .. "0.0" end
    if exponent < -4 or exponent >= 16 then
        local tail = #digits > 1 and "." .. digits:sub(2) or ""
        return ("%s%s%se%s%02d"):format(sign, digits:sub(1, 1), tail, exponent < 0 and "-" or "+", math.abs(exponent))
    end
    if exponent < 0 then return sign .. "0." .. ("0"):rep(-exponent - 1) .. digits end
    digits = digits .. ("0"):rep(exponent + 1 - #digits)
    local fraction = digits:sub(exponent + 2)
    return sign .. digits:sub(1, exponent + 1) .. "." .. (fraction == "" and "0" or fraction)
end

local function big_endian(raw, i, width)
    local value = 0
    for k = i, i + width - 1 do value = value * 256 + raw:byte(k) end
    return value
end

-- `m` holds the bytes (`raw`, `i` moves), where they lie in the frame (`base`), and the cursor.
local function cut(m)
    fail(m.c, "msgpack", m.path, m.base + m.i - 1, true)
end

local function scalar_json(m, lead, size)
    local raw, i = m.raw, m.i
    if lead <= 0x7F then return tostring(lead) end
    if lead >= 0xE0 then return tostring(lead - 256) end
    local is_text = (lead >= 0xA0 and lead <= 0xBF) or (lead >= 0xD9 and lead <= 0xDB)
    if is_text then return text_json(raw:sub(i, i + size - 1)) end
    if lead == 0xC2 then return "false" end
    if lead == 0xC3 then return "true" end
    if lead >= 0xC4 and lead <= 0xC6 then return '{"$bin":"' .. hex(raw:sub(i, i + size - 1)) .. '"}' end
    if lead >= 0xCA and lead <= 0xD3 then
        local range = m.c.tvb(m.base + i - 1, size)
        if lead <= 0xCB then return float_json(range:float()) end
        return tostring(lead <= 0xCF and range:uint64() or range:int64())
    end
    return "null" -- also for every extension
end

local value_json

local function container_json(m, lead, count, is_map, depth, is_key)
    if is_key then fail(m.c, "msgpack", m.path, m.base + m.started - 1) end
    if count * (is_map and 2 or 1) > #m.raw - m.i + 1 then cut(m) end
    if depth > MAX_DEPTH then fail(m.c, "msgpack_depth", m.path, m.base + m.started - 1) end
    local pieces = {}
    for k = 1, count do
        if is_map then
            local key = value_json(m, depth + 1, true)
            if key:sub(1, 1) ~= '"' then key = quote(key) end
            pieces[k] = key .. ":" .. value_json(m, depth + 1)
        else
            pieces[k] = value_json(m, depth + 1)
        end
    end
    local inside = table.concat(pieces, ",")
    return is_map and "{" .. inside .. "}" or "[" .. inside .. "]"
end

function value_json(m, depth, is_key)
    local raw = m.raw
    local lead = raw:byte(m.i)
    if not lead then cut(m) end
    m.started, m.i = m.i, m.i + 1
    local width = SIZE_WIDTHS[lead] or COUNT_WIDTHS[lead]
    local size = FIXED_SIZES[lead] or 0
    if lead >= 0x80 and lead <= 0x9F then
        return container_json(m, lead, lead % 16, lead <= 0x8F, depth, is_key)
    elseif lead >= 0xA0 and lead <= 0xBF then
        size = lead - 0xA0
    elseif width then
        if m.i + width - 1 > #raw then cut(m) end
        size = big_endian(raw, m.i, width)
        m.i = m.i + width
        if COUNT_WIDTHS[lead] then return container_json(m, lead, size, lead >= 0xDE, depth, is_key) end
        if lead >= 0xC7 and lead <= 0xC9 then size = size + 1 end
    elseif lead == 0xC1 then
        fail(m.c, "msgpack", m.path, m.base + m.started - 1)
    end
    if m.i + size - 1 > #raw then cut(m) end
    local shown = scalar_json(m, lead, size)
    m.i = m.i + size
    return shown
end

local function msgpack_json(c, path, at, size, is_map)
    local m = { c = c, path = path, base = at, raw = raw_bytes(c, at, size), i = 1 }
    local shown = value_json(m, 1)
    if m.i <= #m.raw then fail(c, "msgpack_trailing", path, at + m.i - 1) end
    if is_map and not m.raw:find("^[\128-\143\222\223]") then fail(c, "msgpack_map", path, at) end
    return shown
end
--@ end

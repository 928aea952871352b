-- ================================================================ helpers

local proto = Proto(NAME, TITLE)
proto.fields = F
local E = {
    malformed = ProtoExpert.new(NAME .. ".malformed", "malformed", expert.group.MALFORMED, expert.severity.ERROR),
    note = ProtoExpert.new(NAME .. ".note", "tolerated oddity", expert.group.PROTOCOL, expert.severity.NOTE),
    incomplete = ProtoExpert.new(
        NAME .. ".incomplete", "the rest of the frame is missing", expert.group.UNDECODED, expert.severity.NOTE),
}
proto.experts = E

-- A cursor `c` reads one frame: `tvb` is the frame, `at` moves forward, `stop` bounds the range that is being read, `tree`
-- is where items go (none: the frame is only judged), `scope` holds the values of the structure that is being read.

-- Ends the reading of a frame. `short`: the bytes end before the value does.
local function fail(c, rule, path, offset, short)
    if short and c.in_tags then rule = "header_fits" end
    error({ rule = rule, path = path, offset = offset, body_only = c.in_body }, 0)
end

-- Calls a function that may fail: what it returns, or nothing and the fault.
local function attempt(call, ...)
    local ok, first, second = pcall(call, ...)
    if ok then return first, nil, second end
    if type(first) ~= "table" then first = { rule = "dissector", path = tostring(first), offset = 0 } end
    return nil, first
end

local function take(c, size, path, rule)
    local at = c.at
    if size > c.stop - at then fail(c, rule, path, at, true) end
    c.at = at + size
    return at
end

local function contains(list, wanted)
    for _, value in ipairs(list) do
        if value == wanted then return true end
    end
    return false
end

-- The value at a dotted path of nested scopes.
local function reach(scope, path)
    for name in path:gmatch("[^.]+") do
        if type(scope) ~= "table" then return nil end
        scope = scope[name]
    end
    return scope
end

local function number(tvb, wire, at)
    local range = tvb(at, wire.size)
    if wire.size > 4 then
        local whole
        if wire.little then
            whole = wire.signed and range:le_int64() or range:le_uint64()
        else
            whole = wire.signed and range:int64() or range:uint64()
        end
        return whole:tonumber()
    end
    if wire.little then return wire.signed and range:le_int() or range:le_uint() end
    return wire.signed and range:int() or range:uint()
end

local function add(tree, field, range, little)
    if little then return tree:add_le(F[field], range) end
    return tree:add(F[field], range)
end

local function show(c, field, at, size, little)
    return c.tree and add(c.tree, field, c.tvb(at, size), little)
end

-- A value that is not written as such.
local function show_made(c, field, at, size, value)
    if c.tree then c.tree:add(F[field], c.tvb(at, size), value):set_generated() end
end

-- A branch of the tree for what is read until `close`; the caller keeps what `open` returns.
local function open(c, path)
    local outer = { tree = c.tree, at = c.at }
    if c.tree then c.tree = c.tree:add(c.tvb(c.at, c.stop - c.at), path:match("[^.]*$")) end
    return outer
end

local function close(c, outer)
    if c.tree then c.tree:set_len(c.at - outer.at) end
    c.tree = outer.tree
end

-- The smallest number of bytes that a value takes.
local function least(wire)
    local kind = wire.kind
    if kind == "int" or kind == "float" or kind == "fixed" then return wire.size end
    if kind == "bool" then return 1 end
    if kind == "length" then return wire.wire.size end
    if kind == "run" and type(wire.length) == "table" then return wire.length.size + (wire.least or 0) end
    if kind == "many" and type(wire.count) == "table" then return wire.count.size end
    if kind == "many" and wire.count then return wire.count * least(wire.element) end
    local sum = 0
    if kind == "nested" then
        for _, row in ipairs(wire.struct.fields) do
            if not row.when then sum = sum + least(row.wire) end
        end
    end
    return sum
end
--@ when text words msgpack json

-- ---------------------------------------------------------------- text

-- The number of bytes of the character at i; or nothing and the number of bytes that are not one.
local function character(raw, i)
    local lead = raw:byte(i)
    local size, low, high = 2, 0x80, 0xBF
    if lead < 0x80 then return 1 end
    if lead < 0xC2 or lead > 0xF4 then return nil, 1 end
    if lead >= 0xF0 then
        size = 4
        if lead == 0xF0 then low = 0x90 elseif lead == 0xF4 then high = 0x8F end
    elseif lead >= 0xE0 then
        size = 3
        if lead == 0xE0 then low = 0xA0 elseif lead == 0xED then high = 0x9F end
    end
    for k = 1, size - 1 do
        local byte = raw:byte(i + k)
        if not byte or byte < low or byte > high then return nil, k end
        low, high = 0x80, 0xBF
    end
    return size
end

-- Where the first bytes are that are not UTF-8; nothing if all are.
local function first_bad(raw)
    local i = raw:find("[\128-\255]")
    while i and i <= #raw do
        local size = character(raw, i)
        if not size then return i - 1 end
        i = i + size
    end
    return nil
end

-- The text with U+FFFD for what is not UTF-8.
local function replaced(raw)
    if not first_bad(raw) then return raw end
    local pieces, i = {}, 1
    while i <= #raw do
        local size, skip = character(raw, i)
        pieces[#pieces + 1] = size and raw:sub(i, i + size - 1) or "\239\191\189"
        i = i + (size or skip)
    end
    return table.concat(pieces)
end

local function raw_bytes(c, at, size)
    return size > 0 and c.tvb:raw(at, size) or ""
end

-- Text that is not UTF-8, or that Wireshark would cut at a zero byte, gets its bytes as a child.
local function show_text(c, field, at, size)
    if not c.tree then return nil end
    local range, raw = c.tvb(at, size), raw_bytes(c, at, size)
    if not first_bad(raw) and not raw:find("\0", 1, true) then
        return (c.tree:add_packet_field(F[field], range, ENC_UTF_8))
    end
    local item = c.tree:add(F[field], range, (replaced(raw):gsub("\0", "\226\144\128")))
    item:add(F["raw_text"], range)
    return item
end
--@ end
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
    local escaped = text:gsub('[\0-\31"\\]', function(byte)
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

-- A time stamp that no reader could make sense of.
local function odd_timestamp(raw, i, size)
    if raw:byte(i) ~= 0xFF then return false end
    if size == 5 then return false end
    if size == 9 then return math.floor(big_endian(raw, i + 1, 4) / 4) >= 1e9 end
    return size ~= 13 or big_endian(raw, i + 1, 4) >= 1e9
end

-- `m` holds the bytes (`raw`, `i` moves), where they lie in the frame (`base`), and the cursor.
local function cut(m)
    fail(m.c, "msgpack", m.path, m.base + m.i - 1, true)
end

local function scalar_json(m, lead, size)
    local raw, i = m.raw, m.i
    if lead <= 0x7F then return tostring(lead) end
    if lead >= 0xE0 then return tostring(lead - 256) end
    if (lead >= 0xA0 and lead <= 0xBF) or (lead >= 0xD9 and lead <= 0xDB) then return text_json(raw:sub(i, i + size - 1)) end
    if lead == 0xC2 then return "false" end
    if lead == 0xC3 then return "true" end
    if lead >= 0xC4 and lead <= 0xC6 then return '{"$bin":"' .. hex(raw:sub(i, i + size - 1)) .. '"}' end
    if (lead >= 0xC7 and lead <= 0xC9) or lead >= 0xD4 then m.odd = m.odd or odd_timestamp(raw, i, size) end
    if lead >= 0xCA and lead <= 0xD3 then
        local range = m.c.tvb(m.base + i - 1, size)
        if lead <= 0xCB then return float_json(range:float()) end
        return tostring(lead <= 0xCF and range:uint64() or range:int64())
    end
    return "null"
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
    if m.odd then fail(c, "msgpack", path, at) end
    if is_map and not m.raw:find("^[\128-\143\222\223]") then fail(c, "msgpack_map", path, at) end
    return shown
end
--@ end
--@ when json

-- ---------------------------------------------------------------- JSON

local JSON_DEPTH = 256
local NULL = {}
local UNESCAPED = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }
local LITERALS = { { "true", true }, { "false", false }, { "null", NULL } }
local json_value

-- `j` holds the text, the position `i`, and what a fault needs.
local function json_fail(j)
    fail(j.c, "payload_json", j.path, j.base + j.i - 1)
end

local function json_space(j)
    j.i = j.text:find("[^ \t\n\r]", j.i) or #j.text + 1
end

local function json_text(j)
    local pieces = {}
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
            if not escape or not UNESCAPED[escape] then json_fail(j) end
            pieces[#pieces + 1] = UNESCAPED[escape]
            j.i = j.i + 2
        end
    end
end

local function json_number(j)
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
local function read_json(c, path, at, text)
    local j = { c = c, path = path, base = at, text = text, i = 1 }
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

-- ================================================================ values, by kind of node

local read = {}

local function value(c, wire, field, path)
    return read[wire.kind](c, wire, field, path)
end

-- An integer without an item of its own.
local function plain_int(c, wire, path)
    local at = take(c, wire.size, path, "int_fits")
    local found = number(c.tvb, wire, at)
    if (wire.low and found < wire.low) or (wire.high and found > wire.high) then fail(c, wire.rule, path, at) end
    return found, at
end

function read.int(c, wire, field, path)
    local at = c.at
    local item = wire.size <= c.stop - at and show(c, field, at, wire.size, wire.little)
    for _, bit_field in ipairs(item and wire.bits or {}) do
        add(item, bit_field, c.tvb(at, wire.size), wire.little)
    end
    return plain_int(c, wire, path), item
end

function read.length(c, wire, field, path)
    local at = c.at
    local found, item = read.int(c, wire.wire, field, path)
    if found < 0 then fail(c, "negative_length", path, at) end
    return found, item
end
--@ when bool

function read.bool(c, wire, field, path)
    local at = take(c, 1, path, "int_fits")
    local raw = c.tvb(at, 1):uint()
    if raw > 1 and not wire.lenient then fail(c, "bool_value", path, at) end
    return raw, show(c, field, at, 1)
end
--@ end
--@ when float

function read.float(c, wire, field, path)
    local at = take(c, wire.size, path, "int_fits")
    return 0, show(c, field, at, wire.size, wire.little)
end
--@ end
--@ when fixed

function read.fixed(c, wire, field, path)
    local at = take(c, wire.size, path, "bytes_fits")
    return { at = at, length = wire.size }, show(c, field, at, wire.size)
end
--@ end
--@ when run

-- ---------------------------------------------------------------- runs of bytes

-- Each shows the bytes as what they are: the item, and whatever later checks need.
local content = {}

function content.bytes(c, field, path, at, size)
    return show(c, field, at, size)
end
--@ when text

function content.text(c, field, path, at, size)
    return show_text(c, field, at, size)
end

function content.strict_text(c, field, path, at, size, rules)
    local bad = first_bad(raw_bytes(c, at, size))
    if bad then fail(c, rules .. "_utf8", path, at + bad) end
    return show_text(c, field, at, size)
end
--@ end
--@ when msgpack

local function show_msgpack(c, field, path, at, size, is_map)
    local shown = msgpack_json(c, path, at, size, is_map)
    return c.tree and c.tree:add(F[field], c.tvb(at, size), shown)
end

function content.msgpack(c, field, path, at, size)
    return show_msgpack(c, field, path, at, size, false)
end

function content.msgpack_map(c, field, path, at, size)
    return show_msgpack(c, field, path, at, size, true)
end
--@ end
--@ when json

function content.json(c, field, path, at, size)
    local members = read_json(c, path, at, replaced(raw_bytes(c, at, size)))
    return show_text(c, field, at, size), members
end
--@ end

local function run_size(c, wire, path)
    if not wire.length then return c.stop - c.at end
    if type(wire.length) == "string" then return c.scope[wire.length] end
    local at = c.at
    local size = plain_int(c, wire.length, path)
    if size < 0 then fail(c, "negative_length", path, at) end
    return size
end

-- `rules`: how the rules of this run begin, if not with its kind.
function read.run(c, wire, field, path, rules)
    local at = c.at
    local size = run_size(c, wire, path)
    local start = c.at
    rules = rules or ((wire.content == "text" or wire.content == "strict_text") and "text") or "bytes"
    if wire.least and size < wire.least then fail(c, "text_empty", path, at) end
    if wire.most and size > wire.most then fail(c, rules .. "_limit", path, at) end
    if size > c.stop - start then fail(c, rules .. "_fits", path, at, true) end
    c.at = start + size
    local unset = size == 0 and (wire.empty or wire.content == "json")
    local item, members
    if not unset then item, members = content[wire.content](c, field, path, start, size, rules) end
    if c.tree and type(wire.length) == "table" then
        add(item or c.tree, field .. "_length", c.tvb(at, start - at), wire.length.little)
    end
    if unset then return nil end
    return { at = start, length = size, members = members }, item
end
--@ end

-- ---------------------------------------------------------------- structures and lists

local derive = {}

local function show_derived(c, rows, scope)
    for _, row in ipairs(rows or {}) do
        local found = derive[row.how.kind](c, row.how, scope)
        if type(found) == "table" then
            for _, one in ipairs(found) do show_made(c, row.field, c.at, 0, one) end
        elseif found ~= nil then
            show_made(c, row.field, c.at, 0, found)
        end
    end
end

local when = {}

function when.unless(c, condition, scope)
    return not contains(condition.values, scope[condition.field])
end

function when.head_reaches(c, condition)
    return c.head_stop >= condition.size
end

function when.if_left(c)
    return c.at < c.stop
end

function when.with(c, condition, scope)
    return scope[condition.field] ~= nil
end

local function check_limit(c, limit, scope, path)
    local total = 0
    for _, name in ipairs(limit.lengths) do total = total + (scope[name] or 0) end
    if total > limit.most then fail(c, limit.rule, path, c.at) end
end

-- Reads fields in wire order into `scope`; those that are there already travelled in the frame's header.
local function read_fields(c, struct, path, scope)
    local outer = c.scope
    c.scope = scope
    for _, row in ipairs(struct.fields) do
        if scope[row.name] == nil and (not row.when or when[row.when.kind](c, row.when, scope)) then
            local inner = path == "" and (row.key or row.name) or path .. "." .. (row.key or row.name)
            scope[row.name] = value(c, row.wire, row.field, inner)
        end
        for _, limit in ipairs(struct.limits or {}) do
            if limit.lengths[#limit.lengths] == row.name then check_limit(c, limit, scope, path) end
        end
    end
    c.scope = outer
    return scope
end

function read.nested(c, wire, field, path)
    local outer = open(c, path)
    local scope = read_fields(c, wire.struct, path, {})
    show_derived(c, wire.struct.derived, scope)
    close(c, outer)
    return scope
end

function read.many(c, wire, field, path)
    local at = c.at
    local count = wire.count
    if type(count) == "table" then count = plain_int(c, count, path) end
    if count and count < 0 then fail(c, "negative_count", path, at) end
    if count and count * math.max(1, least(wire.element)) > c.stop - c.at then fail(c, "count_fits", path, at, true) end
    local start = c.at
    c.at = at
    local outer = open(c, path)
    c.at = start
    if c.tree and start > at then add(c.tree, field .. "_count", c.tvb(at, start - at), wire.count.little) end
    local i = 0
    while (count and i < count) or (not count and c.at < c.stop) do
        value(c, wire.element, field, ("%s[%d]"):format(path, i))
        i = i + 1
    end
    if c.tree then c.tree:append_text((" (%d)"):format(i)) end
    close(c, outer)
    return {}
end
--@ when cells

-- ---------------------------------------------------------------- cells

local function read_cell(c, wire, field, path)
    local outer = open(c, path)
    local at = take(c, wire.head.size, path, "cell_fits")
    local head = number(c.tvb, wire.head, at)
    local fid = math.floor(head / 2 ^ wire.id_shift)
    local kind = wire.types[bit.band(math.floor(head / 2 ^ wire.type_shift), wire.type_mask) + 1]
    local flagged = bit.band(head, wire.flag_mask) ~= 0
    for _, part in ipairs({ ".fid", ".type", ".group_bit" }) do show(c, field .. part, at, wire.head.size, wire.head.little) end
    if fid > wire.id_max then fail(c, "cell_id", path, at) end
    if not kind then fail(c, "cell_type", path, at) end
    if c.tree then c.tree:append_text((": field %d %s"):format(fid, kind.name)) end
    local found = { fid = fid, type = kind.name, odd = flagged or not kind.wire, at = c.at, length = 0 }
    local inner = kind.wire
    if inner and inner.kind == "run" then
        local run = read.run(c, inner, field .. "." .. kind.field, path, "cell")
        found.at, found.length = run.at, run.length
    elseif inner then
        take(c, inner.size, path, "cell_fits")
        show(c, field .. "." .. kind.field, found.at, inner.size, inner.little)
    end
    close(c, outer)
    return found
end

function read.cells(c, wire, field, path)
    local outer = open(c, path)
    local cells, seen = {}, {}
    while c.at < c.stop do
        local cell = read_cell(c, wire, field, ("%s[%d]"):format(path, #cells))
        c.odd = c.odd or cell.odd or seen[cell.fid]
        seen[cell.fid] = true
        cells[#cells + 1] = cell
    end
    if c.tree then c.tree:append_text((" (%d)"):format(#cells)) end
    close(c, outer)
    return cells
end
--@ end
--@ when signature

local function signature_cell(wire, cells)
    for i = #cells, 1, -1 do
        if cells[i].fid == wire.fid then return cells[i] end
    end
end

-- A structure inside the last cell of a number; read once without showing it, to see whether it is one.
function read.signature(c, wire, field, path)
    local cell = signature_cell(wire, c.scope[wire.cells])
    if not cell or cell.type ~= "BYTES" or cell.length == 0 then return nil end
    if c.tvb(cell.at, 1):uint() ~= wire.lead then return nil end
    local at, stop, tree = c.at, c.stop, c.tree
    local found
    for _, form in ipairs(wire.forms) do
        if form.size == cell.length and not found then
            c.at, c.stop, c.tree = cell.at, cell.at + cell.length, nil
            found = read_fields(c, form.struct, path, {})
            if form.first and found.index ~= 0 or not form.first and found.index <= 0 then break end
            c.at, c.tree = cell.at, tree
            read.nested(c, form, field, path)
        end
    end
    c.at, c.stop, c.tree = at, stop, tree
    return found
end
--@ end
--@ when tags

-- ---------------------------------------------------------------- tag tables

local function tag_row(wire, code)
    for _, row in ipairs(wire.rows) do
        if row.code == code then return row end
    end
end

local function check_required(c, wire, scope, path)
    if not wire.demand or (wire.waived and (scope[wire.waived] or 0) > 0) then return end
    for _, row in ipairs(wire.rows) do
        if contains(row.required or {}, c.code) and scope[row.name] == nil then
            fail(c, "header_required", path .. "." .. row.name, c.at)
        end
    end
end

local function read_tag(c, wire, field, path, scope)
    local at = take(c, 1, path, "header_fits")
    local row = tag_row(wire, c.tvb(at, 1):uint())
    if not row then fail(c, "unknown_header", path, at) end
    local here = path .. "." .. row.name
    if not wire.anywhere and not contains(row.allowed, c.code) then fail(c, "header_not_allowed", here, at) end
    local found, item = true, nil
    if row.wire then
        c.in_tags = true
        found, item = value(c, row.wire, row.field, here)
        c.in_tags = false
    elseif c.tree then
        item = c.tree:add(F[row.field], c.tvb(at, 1), true)
    end
    if c.tree then add(item or c.tree, field .. "_code", c.tvb(at, 1)) end
    scope[row.name] = found
    scope[#scope + 1] = row.name
end

-- The list part of the scope is the order on the wire.
function read.tags(c, wire, field, path)
    local scope, frame_stop = {}, c.stop
    c.stop = c.head_stop or c.stop
    local outer = open(c, path)
    while c.at < c.stop do read_tag(c, wire, field, path, scope) end
    close(c, outer)
    c.stop = frame_stop
    check_required(c, wire, scope, path)
    return scope
end
--@ end
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
    if wire.number then return word_number(wire, groups[1]) end
    for _, group in ipairs(wire.parts_most and groups or {}) do
        if group and (tonumber(group) or 0) > wire.parts_most then return nil end
    end
    return text
end

function read.word(c, wire, field, path)
    local word = table.remove(c.words, 1)
    if not word or (word.raw == "" and wire.optional) then return nil end
    if wire.codes and not contains(wire.codes, c.code) then fail(c, wire.only_rule, path, word.at) end
    local found = word_value(wire, replaced(word.raw))
    if found == nil then fail(c, wire.rule, path, word.at) end
    if not wire.number then
        show_text(c, field, word.at, #word.raw)
    elseif c.tree then
        c.tree:add(F[field], c.tvb(word.at, #word.raw), found)
    end
    return wire.number and found or { at = word.at, length = #word.raw }
end

local function split_line(c, line)
    local raw = raw_bytes(c, c.at, math.min(line.window, c.stop - c.at))
    local stop = raw:find(line.stop, 1, true)
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
    local first = table.remove(words, 1)
    local given = replaced(first.raw):gsub("\226\132\170", "k"):lower() -- the Kelvin sign is a k in lower case
    for _, message in ipairs(c.layout.messages) do
        if message.word == given then
            if c.tree then c.tree:add(F[line.code], c.tvb(first.at, #first.raw), given) end
            c.words, c.at = words, behind
            return message
        end
    end
    fail(c, line.code_rule, line.code, first.at)
end
--@ end
--@ when body

-- ---------------------------------------------------------------- bodies

function read.body(c, wire, field, path)
    local at, size = c.at, c.stop - c.at
    if wire.exactly and size ~= wire.exactly then fail(c, "body_length", path, at) end
    if wire.most and size > wire.most then fail(c, wire.most_rule, path, at) end
    c.at = c.stop
--@ when text
    if wire.text then
        show_text(c, field, at, size)
        return { at = at, length = size }
    end
--@ end
    show(c, field, at, size)
    return { at = at, length = size }
end

local function body_row(message)
    for _, row in ipairs(message.fields) do
        if row.wire.kind == "body" then return row end
    end
end

local function nothing_inside(c, wire, scope)
    return wire.empty == "absent" or (wire.empty_if and derive.at_least(c, wire.empty_if, scope))
end

-- Whether the views look into the body.
local function looked_into(c, scope)
    local row = body_row(c.message)
    if not row then return true end
    if row.wire.opaque_if and (reach(scope, row.wire.opaque_if) or 0) ~= 0 then return false end
    local body = scope[row.name]
    return (body ~= nil and body.length > 0) or not nothing_inside(c, row.wire, scope)
end

local function has_all(found, names)
    for _, name in ipairs(names) do
        if not found or not found.members or not found.members[name] then return false end
    end
    return true
end

-- Reads the body once more through its views.
local function read_views(c, scope)
    local row, views = body_row(c.message), c.message.views
    local body = row and scope[row.name]
    if not views or #views == 0 or not body or not looked_into(c, scope) then return end
    c.in_body = true
    c.at, c.stop, c.scope = body.at, body.at + body.length, scope
    if body.length == 0 and row.wire.empty == "refused" then fail(c, "body_empty", row.key or row.name, c.at) end
    local prefix = row.wire.prefix
    local prefixed = prefix and c.tvb:raw(c.at, math.min(#prefix, body.length)) == prefix
    if prefixed then c.at = c.at + #prefix end
    for _, view in ipairs(views) do
        local at, path = c.at, view.key or view.name
        local found = value(c, view.wire, view.field, path)
        if prefixed and not has_all(found, row.wire.prefix_needs) then fail(c, row.wire.prefix_rule, path, at) end
        scope[view.name] = found
    end
    if c.at ~= c.stop then fail(c, "leftover_bytes", "body", c.at) end
end
--@ end

-- ---------------------------------------------------------------- values that are computed

function derive.frame_length(c, how, scope)
    local less = how.less and reach(scope, how.less)
    return c.header.length - (less and less.length or 0)
end

function derive.payload_length(c)
    return c.header.size
end

function derive.length_of(c, how, scope)
    local found = reach(scope, how.field)
    return found and found.length or 0
end

function derive.at_least(c, how, scope)
    return (reach(scope, how.field) or 0) >= how.limit
end

function derive.empty(c, how, scope)
    return reach(scope, how.field) == nil
end

function derive.order_of(c, how, scope)
    return reach(scope, how.field) or {}
end

function derive.wide(c, how)
    return c.header.size >= how.limit
end

function derive.masked(c)
    return c.header.mask_at ~= nil
end
--@ when body

function derive.present(c, how, scope)
    if not looked_into(c, scope) then return nil end
    return reach(scope, how.field) ~= nil
end
--@ end

-- ================================================================ the frame around a message

-- Each part of the header moves `h.at`, or returns true while its bytes are not there. Positions count from the frame's start.
local part_of = {}

local function header_fail(h, rule, path, offset)
    error({ rule = rule, path = path, offset = offset }, 0)
end

local function message_of(layout, code)
    return layout.by_code[code]
end
--@ when magic

function part_of.magic(h, part)
    local given = h.tvb:raw(h.start + h.at, math.min(#part.value, h.available - h.at))
    for i = 1, #given do
        if given:byte(i) ~= part.value:byte(i) then header_fail(h, "magic", part.name, h.at + i - 1) end
    end
    h.at = h.at + #part.value
    return h.at > h.available
end
--@ end

local function check_size(h, part, at, size)
    if size < (part.least or 0) or (part.most and size > part.most) then header_fail(h, part.rule, part.name, at) end
    h.size = size
    h.length = part.counts == "whole" and size or size + h.at
    return h.at > h.available
end

function part_of.size(h, part)
    local at = h.at
    h.at = at + part.wire.size
    if h.at > h.available then return true end
    return check_size(h, part, at, number(h.tvb, part.wire, h.start + at))
end
--@ when escaped

function part_of.escaped(h, part)
    local at = h.at
    if at + 1 > h.available then return true end
    local size = h.tvb(h.start + at, 1):uint()
    local masked = part.mask_bit ~= 0 and bit.band(size, part.mask_bit) ~= 0
    if masked then
        size = size - part.mask_bit
    elseif size >= 0x80 then
        header_fail(h, "mask_not_allowed", part.name, at)
    end
    if contains(part.reserved or {}, size) then header_fail(h, "length_code", part.name, at) end
    h.at = at + 1
    if size == part.escape then
        if h.at + part.wide.size > h.available then return true end
        size = number(h.tvb, part.wide, h.start + h.at)
        if size < part.escape then header_fail(h, "length_not_minimal", part.name, h.at) end
        h.at = h.at + part.wide.size
    end
    if masked then
        h.mask_at = h.at
        h.at = h.at + 4
    end
    return check_size(h, part, at, size)
end
--@ end
--@ when head

function part_of.head(h, part)
    local at = h.at
    h.at = at + part.wire.size
    if h.at > h.available then return true end
    local size = number(h.tvb, part.wire, h.start + at)
    if size < part.least or size > part.most or size > h.length then header_fail(h, "head_length", part.name, at) end
    if part.body_most and h.length - size > part.body_most then header_fail(h, "body_limit", "body", at) end
    h.head_stop = size
end
--@ end
--@ when code

function part_of.code(h, part, layout)
    h.code_at = h.at
    h.at = h.at + part.wire.size
    if not part.early then return false end
    if h.at > h.available then return true end
    local message = message_of(layout, number(h.tvb, part.wire, h.start + h.code_at))
    if not message then header_fail(h, "unknown_code", part.name, h.code_at) end
    if h.head_stop and h.head_stop < message.head_least then
        header_fail(h, message.head_rule, "request_id", h.code_at)
    end
end
--@ end
--@ when kept

function part_of.kept(h, part)
    h.kept[#h.kept + 1] = { part = part, at = h.at }
    h.at = h.at + part.size
end
--@ end
--@ when words

function part_of.line() end
--@ end

-- The header of the frame at `start`; nothing while it is not all there. Whether the frame is, is another question.
local function measure(layout, tvb, start, stop)
    local h = { tvb = tvb, start = start, available = stop - start, at = 0, kept = {} }
    for _, part in ipairs(layout.frame) do
        if part_of[part.kind](h, part, layout) then return nil end
    end
    h.payload = h.at
    if h.length < h.payload then header_fail(h, "frame_limit", "", 0) end
    return h
end

-- Items of the header, as each part lies in the frame.
local show_part = {}

local function show_int_part(c, part, at)
    show(c, part.name, at, part.wire.size, part.wire.little)
    return at + part.wire.size
end

show_part.size, show_part.code = show_int_part, show_int_part
--@ when head
show_part.head = show_int_part
--@ end
--@ when magic

function show_part.magic(c, part, at)
    show(c, part.name, at, #part.value)
    return at + #part.value
end
--@ end
--@ when escaped

function show_part.escaped(c, part, at)
    local h = c.header
    local size = h.size < part.escape and 1 or 1 + part.wide.size
    c.tree:add(F[part.name], c.tvb(at, size), h.size)
    if not h.mask_at then return at + size end
    show(c, part.mask_key, h.mask_at, 4)
    return h.mask_at + 4
end
--@ end
--@ when kept

function show_part.kept(c, part, at)
    show(c, part.field, at, part.size)
    return at + part.size
end
--@ end
--@ when words

function show_part.line(c, part, at)
    return at
end
--@ end
--@ when escaped

-- The frame with the mask taken off its payload, as a tab of its own.
local function unmasked(tvb, key_at)
    local raw = tvb:raw()
    local key = { raw:byte(key_at + 1, key_at + 4) }
    local bytes = { raw:sub(1, key_at + 4) }
    for i = key_at + 5, #raw do
        bytes[#bytes + 1] = string.char(bit.bxor(raw:byte(i), key[(i - key_at - 5) % 4 + 1]))
    end
    return ByteArray.new(table.concat(bytes), true):tvb("unmasked")
end
--@ end

local function coded_message(c)
    for _, part in ipairs(c.layout.frame) do
--@ when words
        if part.kind == "line" then return read_line(c, part) end
--@ end
        if part.kind == "code" then
            local code = number(c.tvb, part.wire, c.header.code_at)
            local message = message_of(c.layout, code)
            if not message then fail(c, "unknown_code", part.name, c.header.code_at) end
            return message
        end
    end
end

-- What is left behind the last field: nothing, or the padding that a peer is known to add.
local function finish(c)
    local left = c.stop - c.at
    if left == 0 then return end
    local padding = c.message.padding
    if not padding or c.tvb:raw(c.at, left) ~= padding.value then fail(c, "leftover_bytes", "", c.at) end
    if c.tree then
        local item = c.tree:add(F["note.name"], c.tvb(c.at, left), padding.note)
        item:add_proto_expert_info(E.note, "note: " .. padding.note)
    end
    c.at = c.stop
end

local function read_frame(c)
    local h = c.header
--@ when escaped
    if h.mask_at then c.tvb = unmasked(c.tvb, h.mask_at) end
--@ end
    if c.tree then
        local at = 0
        for _, part in ipairs(c.layout.frame) do at = show_part[part.kind](c, part, at) end
    end
    c.at, c.stop, c.head_stop = h.payload, h.length, h.head_stop
    c.message = coded_message(c)
    c.code = c.message.code
    local scope = {}
    for _, kept in ipairs(h.kept) do scope[kept.part.name] = { at = kept.at, length = kept.part.size } end
--@ when escaped
    for _, part in ipairs(c.layout.frame) do
        if part.kind == "escaped" and part.mask_bit ~= 0 then
            scope[part.mask_key] = h.mask_at and { at = h.mask_at, length = 4 } or false
        end
    end
--@ end
    c.values = scope
    read_fields(c, c.message, "", scope)
    finish(c)
--@ when body
    read_views(c, scope)
--@ end
    show_derived(c, c.message.derived, scope)
    return true
end

local function cursor(layout, tvb, at, header, tree)
    return { layout = layout, tvb = tvb(at, header.length):tvb(), header = header, tree = tree, at = 0, stop = 0 }
end

-- Judges the whole frame without showing it: whether it is good and without oddities, and else its fault.
local function judge(layout, tvb, at, header)
    local c = cursor(layout, tvb, at, header, nil)
    local _, fault = attempt(read_frame, c)
    return not fault and not c.odd, fault
end

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

-- ================================================================ where frames begin

local function code_part(layout)
    for _, part in ipairs(layout.frame) do
        if part.kind == "code" then return part end
    end
end
--@ when words

-- Whether one of the messages' words, with its separator, begins here.
local function plausible_line(layout, tvb, start, frame_stop, stop)
    local undecided = false
    for _, part in ipairs(layout.frame) do
        for _, message in ipairs(part.kind == "line" and layout.messages or {}) do
            local word = message.word .. part.separator
            local size = math.min(frame_stop, start + #word) - start
            local given = size > 0 and tvb:raw(start, size):lower() or ""
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
--@ when words
    if not h.code_at then return plausible_line(layout, tvb, start + h.payload, math.min(stop, start + h.length), stop) end
--@ end
    if h.mask_at then return true end
    local part = code_part(layout)
    if h.code_at + part.wire.size > h.available then return nil end
    local message = message_of(layout, number(tvb, part.wire, start + h.code_at))
    return message ~= nil and h.length - h.payload >= message.least
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

-- The readings whose header is good here, shortest frame first; nothing while a header is cut off.
local function possible(tvb, at, stop)
    local found = {}
    for index, layout in ipairs(readings()) do
        local h, fault = attempt(measure, layout, tvb, at, stop)
        if not h and not fault then return nil end
        if h then found[#found + 1] = { index = index, layout = layout, header = h } end
    end
    table.sort(found, function(a, b)
        if a.header.length ~= b.header.length then return a.header.length < b.header.length end
        return a.index < b.index
    end)
    return found
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

-- The shorter reading is right if it fits and what follows looks like a frame; else the longest is.
local function by_length(found, tvb, at, stop)
    local short, long = found[1], found[#found]
    local behind = at + short.header.length
    if not follows(readings(), tvb, behind, stop) then return long.layout end
    local is_clean, fault = judge(short.layout, tvb, at, short.header)
    local certain = false
    for _, layout in ipairs(readings()) do
        certain = certain or (behind < stop and plausible(layout, tvb, behind, stop) == true)
    end
    if is_clean or (fault and fault.body_only and certain) then return short.layout end
    return long.layout
end

-- The reading that the frame at `at` proves, if any; and how many bytes are missing before that can be said.
local function detect(tvb, at, stop)
    local found = possible(tvb, at, stop)
    if not found then return nil, DESEGMENT_ONE_MORE_SEGMENT end
    if #found <= 1 then return found[1] and found[1].layout end
    local missing = found[1].header.length - (stop - at)
    if missing > 0 then return nil, missing end
    if found[1].header.length == found[#found].header.length then return by_content(found, tvb, at) end
    return by_length(found, tvb, at, stop)
end

local stream_number = Field.new("tcp.stream")
local proved = {}

-- Both directions of a connection share a reading.
local function connection(pinfo)
    local numbers = { stream_number() }
    if #numbers > 0 then return tostring(numbers[#numbers]) end
    local ends = { tostring(pinfo.src) .. ":" .. pinfo.src_port, tostring(pinfo.dst) .. ":" .. pinfo.dst_port }
    table.sort(ends)
    return table.concat(ends, " ")
end
--@ end

-- The reading for the frame at `at`; or nothing, and how many bytes are missing before it is known.
local function reading(tvb, pinfo, at, stop)
--@ when auto
    if #readings() > 1 then
        local key = connection(pinfo)
        if not proved[key] then
            local layout, missing = detect(tvb, at, stop)
            if missing then return nil, missing end
            proved[key] = layout
        end
        return proved[key] or readings().fallback
    end
--@ end
    return readings().fallback
end

-- The next position where a whole, clean frame begins and another seems to follow; else the end.
local function search(choices, tvb, from, stop)
    for at = from, stop - 1 do
        for _, layout in ipairs(choices) do
            if plausible(layout, tvb, at, stop) then
                local h = attempt(measure, layout, tvb, at, stop)
                if h and at + h.length <= stop and judge(layout, tvb, at, h)
                    and follows(choices, tvb, at + h.length, stop) then
                    return at
                end
            end
        end
    end
    return stop
end

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
    local address = c.message.address and reach(c.values, c.message.address)
    if address and address.length > 0 then
        text = text .. " " .. c.tvb(address.at, address.length):string(ENC_UTF_8)
    end
    return text
end

local function show_settings(root, tvb, at, layout)
    for _, option in ipairs(OPTIONS) do
        if layout.shown[option.name] then
            root:add(F[option.name], tvb(at, 0), layout.shown[option.name]):set_generated()
        end
    end
end

-- Shows the frame at `at`; returns where the next one begins, or nothing and how many bytes are missing.
local function dissect_frame(tvb, pinfo, tree, at)
    local stop = tvb:len()
    local layout, missing = reading(tvb, pinfo, at, stop)
    if not layout then return nil, missing end
    local h, fault = attempt(measure, layout, tvb, at, stop)
    if not h and not fault then return nil, DESEGMENT_ONE_MORE_SEGMENT end
    if h and at + h.length > stop then return nil, at + h.length - stop end

    local behind = h and at + h.length or stop
    local root = tree:add(proto, tvb(at, behind - at))
    show_settings(root, tvb, at, layout)
    if h then
        local c = cursor(layout, tvb, at, h, root)
        local _, found = attempt(read_frame, c)
        fault = found
        if c.message then tell(pinfo, root, title(c)) end
    end
    if not fault then return behind end

    -- A bad frame costs itself if another seems to follow; otherwise its length is not believed either.
    local choices = layout == readings().fallback and readings() or { layout }
    if not h or not follows(choices, tvb, behind, stop) then behind = search(choices, tvb, at + 1, stop) end
    root:set_len(behind - at)
    show_fault(root, tvb, at, fault)
    tell(pinfo, root, "[malformed: " .. fault.rule .. "]")
    return behind
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
        local behind, missing = dissect_frame(tvb, pinfo, tree, at)
        if not behind then
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
proto.prefs.any_port = Pref.bool(
    "Look on any port", false, "Try every TCP stream: one that begins with a whole, clean frame is taken for " .. NAME)

local listening = {}

local function listen()
    for _, port in ipairs(PORTS) do
        local ports, before, now = DissectorTable.get(port.table), listening[port.name], tostring(proto.prefs[port.name])
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
end

listen()
DissectorTable.get("tcp.port"):add_for_decode_as(proto)
proto:register_heuristic("tcp", heuristic)

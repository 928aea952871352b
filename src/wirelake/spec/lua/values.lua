
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
    for _, flag in ipairs(item and wire.bits or {}) do
        add(item, flag.field, c.tvb(at + flag.at, flag.size), wire.little)
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

function content.bytes(c, wire, field, path, at, size)
    return show(c, field, at, size)
end
--@ when text

function content.text(c, wire, field, path, at, size)
    return show_text(c, field, at, size)
end

-- Other character sets than UTF-8 are shown, not judged.
function content.strict_text(c, wire, field, path, at, size, rules)
    local is_judged = (wire.charset or "utf-8") == "utf-8" and (wire.errors or "strict") == "strict"
    local bad = is_judged and first_bad(raw_bytes(c, at, size))
    if bad then fail(c, rules .. "_utf8", path, at + bad) end
    return show_text(c, field, at, size, wire.charset)
end
--@ end
--@ when msgpack

local function show_msgpack(c, field, path, at, size, is_map)
    local shown = msgpack_json(c, path, at, size, is_map)
    return c.tree and c.tree:add(F[field], c.tvb(at, size), shown)
end

function content.msgpack(c, wire, field, path, at, size)
    return show_msgpack(c, field, path, at, size, false)
end

function content.msgpack_map(c, wire, field, path, at, size)
    return show_msgpack(c, field, path, at, size, true)
end
--@ end
--@ when json

function content.json(c, wire, field, path, at, size)
    local members = read_json(c, path, at, raw_bytes(c, at, size))
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
    local is_text = wire.content == "text" or wire.content == "strict_text"
    rules = rules or (is_text and "text") or "bytes"
    if wire.least and size < wire.least then fail(c, "text_empty", path, at) end
    if wire.most and size > wire.most then fail(c, rules .. "_limit", path, at) end
    if size > c.stop - start then fail(c, rules .. "_fits", path, at, true) end
    c.at = start + size
    local unset = size == 0 and (wire.empty or wire.content == "json")
    local item, members
    if not unset then item, members = content[wire.content](c, wire, field, path, start, size, rules) end
    if c.tree and type(wire.length) == "table" then
        add(item or c.tree, wire.length_field or field .. "_length", c.tvb(at, start - at), wire.length.little)
    end
    if unset then
        if wire.empty == "null" then show_made(c, field, start, 0, "null") end
        return nil
    end
    return { at = start, length = size, is_text = is_text, members = members }, item
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
    if c.tree and start > at then
        add(c.tree, wire.count_field or field .. "_count", c.tvb(at, start - at), wire.count.little)
    end
    local i = 0
    while (count and i < count) or (not count and c.at < c.stop) do
        value(c, wire.element, field, ("%s[%d]"):format(path, i))
        i = i + 1
    end
    if c.tree then c.tree:append_text((" (%d)"):format(i)) end
    close(c, outer)
    return {}
end


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

-- A number of any kind without an item of its own: the number, and how it is shown if its bytes are no integer.
local function plain_number(c, wire, path)
--@ when varint digits
    if wire.kind ~= "int" then return plain_numeral(c, wire, path) end
--@ end
    return (plain_int(c, wire, path))
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
    if wire.since then return { till = c.begun[wire.since] + found }, item end
    return found, item
end
--@ when lookup

-- ---------------------------------------------------------------- what lists say under a key

local function bytes_of(c, found)
    if type(found) == "table" and found.length then return found.meant or raw_bytes(c, found.at, found.length) end
    return found
end

-- What is between the blanks around a text.
local function trimmed(text)
    return text:match("^[ \t]*(.-)[ \t]*$")
end

local function is_key(c, how, given)
    local found = bytes_of(c, given)
    for _, key in ipairs(how.keys) do
        if found == key then return true end
        if how.fold and type(found) == "string" and trimmed(found):lower() == trimmed(key):lower() then return true end
    end
    return false
end

-- What a list says under a key; nothing if it says nothing.
local function look_up(c, how, scope)
    local list = scope[how.field]
    for _, element in ipairs(list and list.items or {}) do
        if is_key(c, how, element[how.first]) then
            local said = element[how.value]
            local text = how.fold and bytes_of(c, said)
            if type(text) ~= "string" then return said end
            local inner = trimmed(text)
            local lead = said.meant and 0 or #text:match("^[ \t]*")
            return { at = said.at + lead, length = said.meant and said.length or #inner, is_text = said.is_text, meant = said.meant and inner }
        end
    end
end

-- The text of a number of at most 18 digits; nothing if it is none.
local function digits_in(c, found)
    local text = bytes_of(c, found)
    if type(text) == "number" then return text end
    return text and #text <= 18 and text:match("^%d+$")
end
--@ end

-- The value of an earlier field, or what a list says under a key.
local function earlier(c, scope, path)
--@ when lookup
    local how = c.message.lookups and c.message.lookups[path]
    if how then
        local found = look_up(c, how, scope)
        if not how.number or found == nil then return found end
        local digits = digits_in(c, found)
        if not digits then fail(c, "digits", path, c.at) end
        return tonumber(digits)
    end
--@ end
    return reach(scope, path)
end
--@ when by

-- The length or count that an earlier field holds; nothing if it holds none.
local function referred(c, wire, name, path)
    local found = earlier(c, c.scope, name)
    if found == nil and wire.otherwise then return referred(c, wire.otherwise, wire.otherwise.field, path) end
    if found == nil then return nil end
    local size = type(found) == "table" and found.till - c.at or math.ceil(found / (wire.per or 1)) + (wire.plus or 0)
    if wire.less then size = size - (earlier(c, c.scope, wire.less) or 0) end
    if size < 0 then fail(c, "negative_length", path, c.at) end
    return size
end
--@ end
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
    local range = c.tvb(at, wire.size)
    return wire.little and range:le_float() or range:float(), show(c, field, at, wire.size, wire.little)
end
--@ end
--@ when fixed

function read.fixed(c, wire, field, path)
    local at = take(c, wire.size, path, "bytes_fits")
    return { at = at, length = wire.size }, show(c, field, at, wire.size)
end
--@ end
--@ when bits

-- Bits of an integer: neighbours share it, and those with shift 0 end it.
function read.bits(c, wire, field, path)
    local at, whole = c.at, wire.wire
    if whole.size > c.stop - at then fail(c, "int_fits", path, at, true) end
    local found = bits_of(wire, number(c.tvb, whole, at))
    local item
    if c.tree and wire.masked then
        item = show(c, field, at, whole.size, whole.little)
    elseif c.tree then
        item = c.tree:add(F[field], c.tvb(at, whole.size), found)
    end
    if (whole.low and found < whole.low) or (whole.high and found > whole.high) then fail(c, whole.rule, path, at) end
    if wire.shift == 0 then c.at = at + whole.size end
    return found, item
end
--@ end
--@ when varint digits

local function read_numeral(c, wire, field, path)
    local at = c.at
    local found, shown = plain_numeral(c, wire, path)
    return found, c.tree and c.tree:add(F[field], c.tvb(at, c.at - at), shown)
end

read.varint, read.digits = read_numeral, read_numeral
--@ end
--@ when scaled

-- The whole units in a number, and what is left; those of 64 bits are more than a number of Lua tells apart.
local function divided(c, wire, at, found, shown)
    if math.abs(found) < 2 ^ 53 then return math.floor(found / wire.per), found % wire.per end
    if wire.wire.kind == "int" then
        local range = c.tvb(at, wire.wire.size)
        shown = wire.wire.little and range:le_int64() or range:int64()
    end
    local whole, left = (shown / wire.per):tonumber(), (shown % wire.per):tonumber()
    if left < 0 then return whole - 1, left + wire.per end
    return whole, left
end

-- An integer that stands for a number with a fraction, or for a time.
function read.scaled(c, wire, field, path)
    local at = c.at
    local found, shown = plain_number(c, wire.wire, path)
    local value = found / wire.per
    if wire.epoch then
        local seconds, left = divided(c, wire, at, found, shown)
        value = NSTime.new(seconds + wire.epoch, left * 1e9 / wire.per)
    end
    return found, c.tree and c.tree:add(F[field], c.tvb(at, c.at - at), value)
end
--@ end
--@ when constant

function read.constant(c, wire, field, path)
    local size = #wire.value
    local at = take(c, size, path, "bytes_fits")
    local given = raw_bytes(c, at, size)
    for i = 1, size do
        if given:byte(i) ~= wire.value:byte(i) then fail(c, wire.rule, path, at + i - 1) end
    end
    show(c, field, at, size)
end
--@ end
--@ when sized

-- A value inside of a range of its own.
function read.sized(c, wire, field, path)
    local at = c.at
    local size, shown
    if type(wire.length) == "string" then
--@ when by
        size = referred(c, wire, wire.length, path)
        if not size then fail(c, "field_missing", path, at) end
--@ end
    else
        size, shown = plain_number(c, wire.length, path)
        if size < 0 then fail(c, "negative_length", path, at) end
        if c.tree then add_number(c.tree, wire.length_field, c.tvb(at, c.at - at), wire.length, shown) end
    end
    if size > c.stop - c.at then fail(c, "bytes_fits", path, at, true) end
    local outer = c.stop
    c.stop = c.at + size
    local found, item = value(c, wire.inner, field, path)
    if c.at ~= c.stop then fail(c, "leftover_bytes", path, c.at) end
    c.stop = outer
    return found, item
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

-- Character sets of which not every byte is a character, and which stand in no table here, are shown, not judged.
function content.strict_text(c, wire, field, path, at, size, rules)
    local judge_text = (wire.errors or "strict") == "strict" and BAD_IN[wire.charset or "utf-8"]
    local bad = judge_text and judge_text(raw_bytes(c, at, size))
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

--@ when stop behind

-- The bytes before those that end a value; one more than allowed, however many they are.
local function size_before(c, wire, stop, path)
    local window = c.stop - c.at
    if wire.most then window = math.min(window, wire.most + #stop) end
    local found = raw_bytes(c, c.at, window):find(stop, 1, true)
    if found then return found - 1 end
    if wire.most and window == wire.most + #stop then return wire.most + 1 end
    fail(c, "terminator", path, c.at, true)
end
--@ end

local function run_size(c, wire, path)
--@ when stop
    if wire.stop then return size_before(c, wire, wire.stop, path) end
--@ end
    if not wire.length then return c.stop - c.at end
--@ when by
    if type(wire.length) == "string" then
        local found = referred(c, wire, wire.length, path)
--@ when behind
        if not found and wire.behind then return size_before(c, wire, wire.behind, path) end
--@ end
        if not found then fail(c, "field_missing", path, c.at) end
        return found
    end
--@ end
    local at = c.at
    local size, shown = plain_number(c, wire.length, path)
    if size < 0 and size ~= wire.null then fail(c, "negative_length", path, at) end
    return size, shown
end
--@ when behind

-- Refuses other bytes behind a value, at `start`, than those that always follow it.
local function check_behind(c, wire, start, path)
    local given = raw_bytes(c, start, math.min(#wire.behind, c.stop - start))
    for i = 1, #given do
        if given:byte(i) ~= wire.behind:byte(i) then fail(c, "terminator", path, start + i - 1) end
    end
    if #given < #wire.behind then fail(c, "terminator", path, start, true) end
end
--@ end

--@ when escapes

-- What bytes stand for that are written with escapes.
local function unescaped(c, wire, path, at, raw)
    local escapes, pieces, from = wire.escapes, {}, 1
    while true do
        local found = raw:find(escapes.begin, from, true)
        if not found then break end
        local meant = escapes.known[raw:sub(found, found + escapes.size - 1)]
        if not meant then fail(c, "escape", path, at + found - 1) end
        pieces[#pieces + 1] = raw:sub(from, found - 1) .. meant
        from = found + escapes.size
    end
    return table.concat(pieces) .. raw:sub(from)
end

-- A text, or bytes, that stand for others than those that are written: such bytes are a source of their own.
local function show_meant(c, wire, field, at, size, meant)
    if not c.tree then return nil end
    local range = c.tvb(at, size)
    if wire.content == "bytes" then
        if size > 0 then range = ByteArray.new(meant, true):tvb(field)() end
        return c.tree:add(F[field], range)
    end
    local item = c.tree:add(F[field], range, (replaced(meant):gsub("\0", "\226\144\128")))
    if first_bad(meant) or meant:find("\0", 1, true) then item:add(F["raw_text"], range) end
    return item
end
--@ end

-- `rules`: how the rules of this run begin, if not with its kind.
function read.run(c, wire, field, path, rules)
    local at = c.at
    local size, shown = run_size(c, wire, path)
    local start = c.at
    if wire.null and size == wire.null then
        if c.tree then add_number(c.tree, wire.length_field or field .. "_length", c.tvb(at, start - at), wire.length, shown) end
        return nil
    end
    local is_text = wire.content == "text" or wire.content == "strict_text"
    rules = rules or (is_text and "text") or "bytes"
    if size < (wire.least or 0) then fail(c, "text_empty", path, at) end
    if wire.most and size > wire.most then fail(c, rules .. "_limit", path, at) end
    if size > c.stop - start then fail(c, rules .. "_fits", path, at, true) end
--@ when behind
    if wire.behind then check_behind(c, wire, start + size, path) end
--@ end
    c.at = start + size + #(wire.stop or wire.behind or "")
    local unset = size == 0 and (wire.empty or (wire.content == "json" and not wire.length and not wire.stop))
    local item, members, meant
--@ when escapes
    if wire.escapes then
        meant = unescaped(c, wire, path, start, raw_bytes(c, start, size))
        item = show_meant(c, wire, field, start, size, meant)
    end
--@ end
    if not unset and not meant then item, members = content[wire.content](c, wire, field, path, start, size, rules) end
    if c.tree and type(wire.length) == "table" then
        local beside = wire.length_field or field .. "_length"
        add_number(item or c.tree, beside, c.tvb(at, start - at), wire.length, shown)
    end
    if unset then
        if wire.empty == "null" then show_made(c, field, start, 0, "null") end
        return nil
    end
    return { at = start, length = size, is_text = is_text, members = members, meant = meant }, item
end
--@ end

-- ---------------------------------------------------------------- structures and lists

local derive = {}

local function show_derived(c, rows, scope)
    for _, row in ipairs(rows or {}) do
        local found = derive[row.how.kind](c, row.how, scope)
        if type(found) == "table" and found.length then
            local item = found.meant and c.tree and c.tree:add(F[row.field], c.tvb(found.at, found.length), found.meant)
                or found.is_text and show_text(c, row.field, found.at, found.length)
                or show(c, row.field, found.at, found.length)
            if item then item:set_generated() end
        elseif type(found) == "table" then
            for _, one in ipairs(found) do show_made(c, row.field, c.at, 0, one) end
        elseif found ~= nil then
            show_made(c, row.field, c.at, 0, found)
        end
    end
end

local when = {}

function when.head_reaches(c, condition)
    return c.head_stop >= condition.size
end

function when.if_left(c)
    return c.at < c.stop
end

function when.with(c, condition, scope)
    return scope[condition.field] ~= nil
end
--@ when begins

function when.begins(c, condition)
    for _, start in ipairs(condition.starts) do
        if raw_bytes(c, c.at, math.min(#start, c.stop - c.at)) == start then return true end
    end
    local given = raw_bytes(c, c.at, c.stop - c.at)
    for _, start in ipairs(c.stop == c.open_stop and condition.starts or {}) do
        if start:sub(1, #given) == given then fail(c, "bytes_fits", "", c.at, true) end
    end
    return false
end
--@ end

--@ when when

-- The value as it can be compared: a number, or the bytes of a text.
local function comparable(c, found)
    if type(found) ~= "table" or not found.length then return found end
    return found.meant or raw_bytes(c, found.at, found.length)
end

local function is_set(found)
    if type(found) == "table" then
        local size = found.length or found.count
        return size == nil or size > 0
    end
    return found ~= nil and found ~= false and found ~= 0 and found ~= ""
end

-- Both halves of 64 bits, which are more than a number of Lua tells apart.
local function halves_of(c, wire, at)
    local left, right = c.tvb(at, 4), c.tvb(at + 4, 4)
    if wire.little then return { high = right:le_uint(), low = left:le_uint() } end
    return { high = left:uint(), low = right:uint() }
end

-- Whether a number has a bit in common with the halves of another one.
local function shares_bits(found, halves, bits)
    halves = halves or { high = math.floor(found / 2 ^ 32) % 2 ^ 32, low = found % 2 ^ 32 }
    return bit.band(halves.low, bits.low) ~= 0 or bit.band(halves.high, bits.high) ~= 0
end

-- Whether the value is one of these; where there is none, 0 and nothing are it.
local function is_one_of(found, values)
    if found ~= nil then return contains(values, found) end
    return contains(values, 0) or contains(values, "")
end

local function holds(c, condition, found, halves)
    if condition.bare then return is_set(found) ~= (condition.empty or false) end
    local seen = comparable(c, found)
    local amount = type(seen) == "number" and seen or 0
    if condition.one_of and not is_one_of(seen, condition.one_of) then return false end
    if condition.none_of and is_one_of(seen, condition.none_of) then return false end
    if condition.least and amount < condition.least then return false end
    if condition.most and amount > condition.most then return false end
    if condition.bits and not shares_bits(amount, halves, condition.bits) then return false end
    local prefix = condition.prefix
    if prefix and (type(seen) ~= "string" or seen:sub(1, #prefix) ~= prefix) then return false end
    return not condition.empty or not is_set(found)
end

function when.when(c, condition, scope)
    return holds(c, condition, earlier(c, scope, condition.field), c.halves[condition.field])
end

function when.every(c, every, scope)
    for _, condition in ipairs(every.conditions) do
        if not when.when(c, condition, scope) then return false end
    end
    return true
end
--@ end

local function check_limit(c, limit, scope, path)
    local total = 0
    for _, name in ipairs(limit.lengths) do total = total + (scope[name] or 0) end
    if total > limit.most then fail(c, limit.rule, path, c.at) end
end

-- Reads fields in wire order into `scope`; those that are there already, or `done`, travelled in the frame's header.
local function read_fields(c, struct, path, scope, done)
    local outer, outer_begun, outer_from, outer_halves = c.scope, c.begun, c.from, c.halves
    c.scope, c.begun, c.from, c.halves = scope, {}, c.at, {}
    for _, row in ipairs(struct.fields) do
        local is_new = scope[row.name] == nil and not (done and done[row.name])
        c.stop = c.stop - (row.spare or 0)
        if is_new and (not row.when or when[row.when.kind](c, row.when, scope)) then
            local inner = path == "" and (row.key or row.name) or path .. "." .. (row.key or row.name)
            c.begun[row.name] = c.at
            scope[row.name] = value(c, row.wire, row.field, inner)
--@ when when
            if row.wire.kind == "int" and row.wire.size == 8 then
                c.halves[row.name] = halves_of(c, row.wire, c.begun[row.name])
            end
--@ end
        end
        c.stop = c.stop + (row.spare or 0)
        for _, limit in ipairs(struct.limits or {}) do
            if limit.lengths[#limit.lengths] == row.name then check_limit(c, limit, scope, path) end
        end
    end
    c.scope, c.begun, c.from, c.halves = outer, outer_begun, outer_from, outer_halves
    return scope
end

function read.nested(c, wire, field, path)
    local outer = open(c, path)
    local scope = read_fields(c, wire.struct, path, {})
    show_derived(c, wire.struct.derived, scope)
    close(c, outer)
    return scope
end

-- Whether a list has another element.
local function more_follow(c, wire, count, i, path, before)
--@ when last
    if wire.or_end and c.at >= c.stop then return false end
    if wire.last then return i == 0 or not holds(c, wire.last, reach(before, wire.last.field)) end
--@ end
--@ when stop
    if wire.stop then
        if raw_bytes(c, c.at, math.min(#wire.stop, c.stop - c.at)) == wire.stop then return false end
        if c.at >= c.stop then fail(c, "terminator", path, c.at, true) end
        return true
    end
--@ end
    if count then return i < count end
    return c.at < c.stop
end

function read.many(c, wire, field, path)
    local at = c.at
    local count, shown = wire.count, nil
    if type(count) == "table" then
        count, shown = plain_number(c, count, path)
--@ when by
    elseif type(count) == "string" then
        count = referred(c, wire, count, path)
        if not count then fail(c, "field_missing", path, at) end
--@ end
    end
    if wire.null and count == wire.null then
        if c.tree then add_number(c.tree, wire.count_field or field .. "_count", c.tvb(at, c.at - at), wire.count, shown) end
        return nil
    end
    if count and count < 0 then fail(c, "negative_count", path, at) end
    if count and count * math.max(1, least(wire.element)) > c.stop - c.at then fail(c, "count_fits", path, at, true) end
    local start = c.at
    c.at = at
    local outer = open(c, path)
    c.at = start
    if c.tree and start > at then
        add_number(c.tree, wire.count_field or field .. "_count", c.tvb(at, start - at), wire.count, shown)
    end
    local i, before, items = 0, nil, nil
--@ when lookup
    items = c.message.lookups and {}
--@ end
    while more_follow(c, wire, count, i, path, before) do
        before = value(c, wire.element, field, ("%s[%d]"):format(path, i))
        i = i + 1
        if items then items[i] = before end
    end
    c.at = c.at + #(wire.stop or "")
    if c.tree then c.tree:append_text((" (%d)"):format(i)) end
    close(c, outer)
    return { count = i, items = items }
end
--@ when align

-- Zeros up to a multiple of some bytes from where the structure or message begins.
function read.align(c, wire, field, path)
    local size = -(c.at - c.from) % wire.size
    local at = take(c, size, path, "bytes_fits")
    local wrong = raw_bytes(c, at, size):find("[^%z]")
    if wrong then fail(c, "constant", path, at + wrong - 1) end
    if size > 0 then show(c, field, at, size) end
end
--@ end


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

-- The values of the structure that has a field, here or around; nothing where none has.
local function scope_with(scope, path)
    local first = path:match("^[^.]+")
    while scope do
        for _, row in ipairs(scope[":rows"] or {}) do
            if row.name == first then return scope end
        end
        scope = scope[":around"]
    end
end

-- The value of an earlier field, here or around, or what a list says under a key.
local function earlier(c, scope, path)
    local inside = scope_with(scope, path)
    if inside then return reach(inside, path) end
--@ when lookup
    local how = c.message.lookups and c.message.lookups[path]
    if how then
        local found = look_up(c, how, c.values)
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
    local size = type(found) == "table" and found.till - c.at
        or math.ceil(found * (wire.times or 1) / (wire.per or 1)) + (wire.plus or 0)
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
    local found, exact = bits_at(c.tvb, wire, at)
    local item
    if c.tree and wire.masked then
        item = show(c, field, at, whole.size, whole.little)
    elseif c.tree then
        item = c.tree:add(F[field], c.tvb(at, whole.size), exact or found)
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
        size = size * (wire.times or 1) + (wire.plus or 0)
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
--@ when filled
    if wire.fixed then return wire.fixed end
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
    size = size * (wire.times or 1) + (wire.plus or 0)
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

--@ when filled

-- How many bytes fill up a value before it, and how many it has itself.
local function without_pad(wire, raw)
    local first, last = 1, #raw
    while not wire.before and last >= first and raw:sub(last, last) == wire.pad do last = last - 1 end
    while wire.before and first <= last and raw:sub(first, first) == wire.pad do first = first + 1 end
    return first - 1, last - first + 1
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
--@ when filled
    if wire.fixed then
        local lead, kept = without_pad(wire, raw_bytes(c, start, size))
        start, size = start + lead, kept
    end
--@ end
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

--@ when forms

-- ---------------------------------------------------------------- times as text

do

local MONTHS = { Jan = 1, Feb = 2, Mar = 3, Apr = 4, May = 5, Jun = 6, Jul = 7, Aug = 8, Sep = 9, Oct = 10, Nov = 11, Dec = 12 }
local DAYS = { Thu = 0, Fri = 1, Sat = 2, Sun = 3, Mon = 4, Tue = 5, Wed = 6 }

local function is_leap(year) return year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0) end

local function days_in(year, month)
    if month == 2 then return is_leap(year) and 29 or 28 end
    return (month == 4 or month == 6 or month == 9 or month == 11) and 30 or 31
end

-- Days from 1970 on to the first day of a year.
local function days_before(year)
    local last = year - 1
    return 365 * (year - 1970) + math.floor(last / 4) - math.floor(last / 100) + math.floor(last / 400) - 477
end

-- What a text says, by directive; nothing where it has another form.
local function said_in(pieces, text)
    local at, said = 1, {}
    for _, piece in ipairs(pieces) do
        local size = piece.size or #piece.text
        local part = text:sub(at, at + size - 1)
        at = at + size
        if piece.text then
            if part ~= piece.text then return nil end
        elseif piece.kind == "b" or piece.kind == "a" then
            said[piece.kind] = (piece.kind == "b" and MONTHS or DAYS)[part]
            if not said[piece.kind] then return nil end
        else
            if #part ~= size or part:find("%D") then return nil end
            said[piece.kind] = tonumber(part)
        end
    end
    return at == #text + 1 and said or nil
end

-- The seconds since 1970 and the nanoseconds behind them; nothing where there is no such time.
local function time_of(said)
    local year, month, day = said.Y, said.b or said.m or 1, said.d or 1
    if year < 1 or month < 1 or month > 12 or day < 1 or day > days_in(year, month) then return nil end
    local days = days_before(year) + day - 1
    if said.j then
        if said.j < 1 or said.j > (is_leap(year) and 366 or 365) then return nil end
        days = days + said.j - 1
    end
    for before = 1, month - 1 do days = days + days_in(year, before) end
    local hour, minute, second = said.H or 0, said.M or 0, said.S or 0
    if hour > 23 or minute > 59 or second > 59 or (said.a and said.a ~= days % 7) then return nil end
    return days * 86400 + hour * 3600 + minute * 60 + second, (said.f or 0) * 1000 + (said["3f"] or 0) * 1000000
end

function read.written_time(c, wire, field, path)
    local at = c.at
    local found = value(c, wire.wire, wire.text, path)
    local said = said_in(wire.pieces, found.meant or raw_bytes(c, found.at, found.length))
    local seconds, left = nil, nil
    if said then seconds, left = time_of(said) end
    if not seconds then fail(c, "timestamp_range", path, at) end
    local item = c.tree and c.tree:add(F[field], c.tvb(found.at, found.length), NSTime.new(seconds, left))
    return { at = found.at, length = found.length }, item
end

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

-- Both halves of a number of 64 bits, which are more than a number of Lua tells apart; the high one has the sign.
local function halves_of(c, wire, at)
    if wire.kind == "int" and wire.size == 8 then
        local left, right = c.tvb(at, 4), c.tvb(at + 4, 4)
        local high = wire.little and right or left
        local low = wire.little and left:le_uint() or right:uint()
        if wire.signed then return { high = wire.little and high:le_int() or high:int(), low = low } end
        return { high = wire.little and high:le_uint() or high:uint(), low = low }
    end
    if wire.wide and c.shown then
        local hex = c.shown:tohex(16)
        local high, low = tonumber(hex:sub(1, 8), 16), tonumber(hex:sub(9), 16)
        return { high = wire.signed and high >= 2 ^ 31 and high - 2 ^ 32 or high, low = low }
    end
end

local function halves_in(number)
    if type(number) == "table" then return number end
    return { high = math.floor(number / 2 ^ 32), low = number % 2 ^ 32 }
end

-- Whether one number is below another, both as halves.
local function is_less(one, other)
    if one.high ~= other.high then return one.high < other.high end
    return one.low < other.low
end

-- Whether the value is one of these; where there is none, 0 and nothing are it.
local function is_one_of(found, values, halves)
    if found == nil then return contains(values, 0) or contains(values, "") end
    if type(found) ~= "number" then return contains(values, found) end
    for _, value in ipairs(values) do
        local other = halves_in(value)
        if halves.high == other.high and halves.low == other.low then return true end
    end
    return false
end

local function holds(c, condition, found, halves)
    if condition.bare then return is_set(found) ~= (condition.empty or false) end
    local seen = comparable(c, found)
    halves = halves or halves_in(type(seen) == "number" and seen or 0)
    if condition.one_of and not is_one_of(seen, condition.one_of, halves) then return false end
    if condition.none_of and is_one_of(seen, condition.none_of, halves) then return false end
    if condition.least and is_less(halves, halves_in(condition.least)) then return false end
    if condition.most and is_less(halves_in(condition.most), halves) then return false end
    local bits = condition.bits
    if bits and bit.band(halves.low, bits.low) == 0 and bit.band(halves.high, bits.high) == 0 then return false end
    local prefix = condition.prefix
    if prefix and (type(seen) ~= "string" or seen:sub(1, #prefix) ~= prefix) then return false end
    return not condition.empty or not is_set(found)
end

function when.when(c, condition, scope)
    local path = condition.field
    return holds(c, condition, earlier(c, scope, path), reach(scope_with(scope, path), path .. ":halves"))
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
    local outer, outer_begun, outer_from = c.scope, c.begun, c.from
    c.scope, c.begun, c.from = scope, {}, c.at
    scope[":rows"] = struct.fields
    if outer ~= scope then scope[":around"] = outer end -- the fields of the header are in the same one
    for _, row in ipairs(struct.fields) do
        local is_new = scope[row.name] == nil and not (done and done[row.name])
        c.stop = c.stop - (row.spare or 0)
        if is_new and (not row.when or when[row.when.kind](c, row.when, scope)) then
            local inner = path == "" and (row.key or row.name) or path .. "." .. (row.key or row.name)
            c.begun[row.name] = c.at
            scope[row.name] = value(c, row.wire, row.field, inner)
--@ when when
            scope[row.name .. ":halves"] = halves_of(c, row.wire, c.begun[row.name])
--@ end
        end
        c.stop = c.stop + (row.spare or 0)
        for _, limit in ipairs(struct.limits or {}) do
            if limit.lengths[#limit.lengths] == row.name then check_limit(c, limit, scope, path) end
        end
    end
    c.scope, c.begun, c.from = outer, outer_begun, outer_from
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
    if wire.last then
        return i == 0
            or not holds(c, wire.last, reach(before, wire.last.field), reach(before, wire.last.field .. ":halves"))
    end
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
        count = count * (wire.times or 1) + (wire.plus or 0)
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
        local began = c.at
        before = value(c, wire.element, field, ("%s[%d]"):format(path, i))
        if c.at == began then fail(c, "count_fits", ("%s[%d]"):format(path, i), began) end
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

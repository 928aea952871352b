-- ================================================================ helpers

proto.fields = F
local E = {
    malformed = ProtoExpert.new(NAME .. ".malformed", "malformed", expert.group.MALFORMED, expert.severity.ERROR),
    note = ProtoExpert.new(NAME .. ".note", "tolerated oddity", expert.group.PROTOCOL, expert.severity.NOTE),
    incomplete = ProtoExpert.new(
        NAME .. ".incomplete", "the rest of the frame is missing", expert.group.UNDECODED, expert.severity.NOTE),
}
proto.experts = E

-- A cursor `c` reads one frame: `tvb` is the frame, `at` moves forward, `stop` bounds the range that is being read,
-- `tree` is where items go (none: the frame is only judged), `scope` holds the values of the structure that is being
-- read: numbers, or positions (`at`, `length`), or scopes of inner structures.

-- Ends the reading of a frame. `short`: the bytes end before the value does.
local function fail(c, rule, path, offset, short)
    if short and c.in_tags then rule = "header_fits" end
    error({ rule = rule, path = path, offset = offset, short = short, body_only = c.in_body }, 0)
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

--@ when bits

local function bits_of(wire, whole)
    return math.floor(whole / 2 ^ wire.shift) % 2 ^ wire.width
end

-- The same for the integer at some place: one of 64 bits is more than a number of Lua tells apart.
local function bits_at(tvb, wire, at)
    local whole = wire.wire
    if whole.size < 8 then return bits_of(wire, number(tvb, whole, at)) end
    local range = tvb(at, 8)
    local low, high = 2 ^ math.min(wire.width, 32) - 1, 2 ^ math.max(wire.width - 32, 0) - 1
    local exact = (whole.little and range:le_uint64() or range:uint64()):rshift(wire.shift):band(UInt64.new(low, high))
    return exact:tonumber(), exact
end
--@ end

local function add(tree, field, range, little)
    if little then return tree:add_le(F[field], range) end
    return tree:add(F[field], range)
end

local function show(c, field, at, size, little)
    return c.tree and add(c.tree, field, c.tvb(at, size), little)
end

-- A number: as its bytes say, or as `shown` if they are not an integer.
local function add_number(tree, field, range, wire, shown)
    if shown ~= nil then return tree:add(F[field], range, shown) end
    return add(tree, field, range, wire.little)
end

local function raw_bytes(c, at, size)
    return size > 0 and c.tvb:raw(at, size) or ""
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
local least_of = {}

local function least(wire)
    local find = least_of[wire.kind]
    return find and find(wire) or 0
end

local function own_size(wire) return wire.size end

least_of.int, least_of.float, least_of.fixed = own_size, own_size, own_size
function least_of.bool() return 1 end
function least_of.length(wire) return wire.wire.size end

function least_of.nested(wire)
    local sum = 0
    for _, row in ipairs(wire.struct.fields) do
        if not row.when then sum = sum + least(row.wire) end
    end
    return sum
end

function least_of.run(wire)
    local bytes = (wire.least or 0) + #(wire.behind or "")
    if wire.stop then return (wire.least or 0) + #wire.stop end
    if wire.fixed then return wire.fixed end
    if not wire.length then return 0 end
    if type(wire.length) == "string" then return bytes end
    return least(wire.length) + (wire.null and 0 or bytes)
end

function least_of.many(wire)
    if wire.stop then return #wire.stop end
    if wire.last then return wire.or_end and 0 or least(wire.element) end
    if type(wire.count) == "table" then return least(wire.count) end
    if type(wire.count) == "string" then return 0 end
    return (wire.count or 0) * least(wire.element)
end
--@ when bits

function least_of.bits(wire) return wire.shift == 0 and wire.wire.size or 0 end
--@ end
--@ when varint

function least_of.varint() return 1 end
--@ end
--@ when digits

function least_of.digits(wire) return (wire.size or 1) + #wire.stop end
--@ end
--@ when scaled

function least_of.scaled(wire) return least(wire.wire) end
--@ end
--@ when forms

function least_of.written_time(wire) return least(wire.wire) end
--@ end
--@ when constant

function least_of.constant(wire) return #wire.value end
--@ end
--@ when checksum

function least_of.checksum(wire) return wire.wire.size end
--@ end
--@ when sized

function least_of.sized(wire) return type(wire.length) == "table" and least(wire.length) or 0 end
--@ end
--@ when choice

function least_of.choice(wire) return wire.tag or least(CHOICES[wire.name].only.wire) end
--@ end

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


-- ================================================================ the frame around a message

-- Each part of the header moves `h.at`, or returns true while its bytes are not there. Positions count from the start
-- of the frame.
local part_of = {}

local function header_fail(h, rule, path, offset)
    error({ rule = rule, path = path, offset = offset }, 0)
end

-- The message with this code; of those that no other one has, the message that takes any.
local function message_of(layout, code)
    return layout.by_code[code] or layout.other
end

local coded_message, read_message, read_kept
--@ when magic

function part_of.magic(h, part)
    local size = math.min(#part.value, h.available - h.at)
    local given = size > 0 and h.tvb:raw(h.start + h.at, size) or ""
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
    h.length = (part.plus or 0) + (part.counts == "whole" and size or size + h.at)
    return h.at > h.available
end

function part_of.size(h, part)
    local at = h.at
--@ when varint digits
    if part.wire.kind ~= "int" then
        local found, size, shown = numeral(part.wire, h.tvb, h.start + at, h.available - at)
        if found == nil and size == nil then return true end
        if found == nil then header_fail(h, size.rule, part.name, at + size.offset) end
        h.at, h.size_shown = at + size, shown
        return check_size(h, part, at, found)
    end
--@ end
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
    elseif size >= 0x80 and part.escape < 0x80 then
        header_fail(h, "mask_not_allowed", part.name, at)
    end
    local beyond = size > math.max(part.escape, 0x7f)
    if beyond or contains(part.reserved or {}, size) then header_fail(h, "length_code", part.name, at) end
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

local function code_size(wire)
--@ when bits
    if wire.kind == "bits" then return wire.wire.size end
--@ end
    return wire.size
end

local function code_at(tvb, wire, at)
--@ when bits
    if wire.kind == "bits" then return bits_of(wire, number(tvb, wire.wire, at)) end
--@ end
    return number(tvb, wire, at)
end

--@ when codes

-- The next one of several codes; where those before it say all, there is none.
local function further_code(h, part, layout)
    local key = h.key or ""
    if not layout.beginnings[key] then return false end
    local size = code_size(part.wire)
    if h.size and h.at + size > (h.stop or h.length) then header_fail(h, "frame_limit", part.name, 0) end
    if h.at + size > h.available then return true end
    h.code_at, h.codes = h.at, (h.codes or 0) + 1
    h.key = ("%s/%.0f"):format(key, code_at(h.tvb, part.wire, h.start + h.at))
    if not layout.beginnings[h.key] and not layout.by_code[h.key] then
        header_fail(h, "unknown_code", part.name, h.code_at)
    end
    h.at = h.at + least(part.wire)
end
--@ end

--@ when code_text

-- Whether these bytes may be the beginning of a code that is text.
local function may_become(layout, given, stop)
    for code in pairs(layout.by_code) do
        if (code .. stop):sub(1, #given) == given then return true end
    end
    return layout.other ~= nil
end

local function text_code(h, part, layout)
    local at, stop = h.at, part.wire.stop
    local size = math.max(math.min(h.available - at, part.most + #stop), 0)
    local given = size > 0 and h.tvb:raw(h.start + at, size) or ""
    local found = given:find(stop, 1, true)
    if not found then
        if size == part.most + #stop or not may_become(layout, given, stop) then
            header_fail(h, "unknown_code", part.name, at)
        end
        return true
    end
    h.key, h.code_at, h.at = given:sub(1, found - 1), at, at + found - 1 + #stop
    if layout.other then h.kept[#h.kept + 1] = { part = { name = part.name }, at = at, is_code = true } end
    if not message_of(layout, h.key) then header_fail(h, "unknown_code", part.name, at) end
end
--@ end

--@ when code_number

local function number_code(h, part, layout)
    local stop = h.size and (h.stop or h.length) or h.available + 1
    local found, size, shown = numeral(part.wire, h.tvb, h.start + h.at, math.min(stop, h.available) - h.at)
    if found == nil and size == nil then
        if stop <= h.available then header_fail(h, "frame_limit", part.name, 0) end
        return true
    end
    if found == nil then header_fail(h, size.rule, part.name, h.at + size.offset) end
    h.key, h.code_at, h.code_shown, h.at = found, h.at, shown or found, h.at + size
    if layout.other then h.kept[#h.kept + 1] = { part = { name = part.name }, at = h.code_at, is_code = true } end
    if not message_of(layout, h.key) then header_fail(h, "unknown_code", part.name, h.code_at) end
end
--@ end

function part_of.code(h, part, layout)
--@ when code_number
    if part.wire.kind == "varint" or part.wire.kind == "digits" then return number_code(h, part, layout) end
--@ end
--@ when code_text
    if part.wire.kind == "run" then return text_code(h, part, layout) end
--@ end
--@ when codes
    if layout.beginnings[""] then return further_code(h, part, layout) end
--@ end
    h.code_at = h.at
    if layout.other then h.kept[#h.kept + 1] = { part = { name = part.name }, at = h.at, is_code = true } end
    local is_early = part.early or layout.place ~= ""
    if is_early and h.at + code_size(part.wire) > h.available then return true end
    h.at = h.at + least(part.wire)
    if not is_early then return false end
    local message = message_of(layout, code_at(h.tvb, part.wire, h.start + h.code_at))
    if not message then header_fail(h, "unknown_code", part.name, h.code_at) end
    if h.head_stop and h.head_stop < (message.head_least or 0) and h.head_stop ~= message.head_or then
        header_fail(h, message.head_rule, "request_id", h.code_at)
    end
end
--@ end
--@ when kept

--@ when loose said

-- A cursor on what is there of a frame, and the fields of its header that were read.
local function header_cursor(h, layout, stop)
    local c = { layout = layout, tvb = h.tvb(h.start, stop):tvb(), header = h, at = h.at, stop = stop, open = true, words = {} }
    local scope = {}
    c.message = layout.messages[1]
    read_kept(c, c.message, scope, {})
    c.at = h.at
    return c, scope
end
--@ end
--@ when loose

local MOST_IN_HEADER = 4096

-- A field without a fixed size, or one that is there under a condition.
local function loose_field(h, part, layout)
    if h.at > h.available then return true end
    local reach = h.at + MOST_IN_HEADER
    if h.size then reach = math.min(reach, h.stop or h.length) end
    local behind, fault = attempt(function()
        local c, scope = header_cursor(h, layout, math.min(h.available, reach))
        if reach > h.available then c.open_stop = c.stop end
        if part.when and not when[part.when.kind](c, part.when, scope) then return h.at end
        h.kept[#h.kept + 1] = { part = part, at = h.at }
        value(c, part.wire, nil, part.key or part.name)
        return c.at
    end)
    if not fault then
        h.at = behind
        return false
    end
    if not fault.short then error(fault, 0) end
    if reach > h.available then return true end
    if reach == h.at + MOST_IN_HEADER then header_fail(h, "frame_limit", fault.path, h.at) end
    header_fail(h, "frame_limit", fault.path, 0)
end
--@ end
--@ when said

-- A length that fields of the header say.
function part_of.said(h, part, layout)
    if h.at > h.available then return true end
    local c, scope = header_cursor(h, layout, h.available)
    local by = part.by
    while by and scope[by.field] == nil do by = by.otherwise end
    if not by then header_fail(h, "field_missing", part.name, h.at) end
    local size = math.ceil(scope[by.field] * (by.times or 1) / (by.per or 1)) + (by.plus or 0)
    if by.less then size = size - (scope[by.less] or 0) end
    return check_size(h, part, h.at, size)
end
--@ end

function part_of.kept(h, part, layout)
--@ when loose
    if part.loose then return loose_field(h, part, layout) end
--@ end
    h.kept[#h.kept + 1] = { part = part, at = h.at }
    h.at = h.at + part.size
end
--@ end
--@ when words

function part_of.line() end
--@ end
--@ when trailer

function part_of.trailer(h, part)
    h.stop = h.length - #part.value
end
--@ end
--@ when until

-- The frame ends with certain bytes, within a limit.
part_of["until"] = function(h, part)
    if h.at > h.available then return true end
    local reach = h.at + part.most + #part.value
    local size = math.min(h.available, reach) - h.at
    local found = (size > 0 and h.tvb:raw(h.start + h.at, size) or ""):find(part.value, 1, true)
    if not found and h.available >= reach then header_fail(h, part.rule, part.name, h.at) end
    if not found then return true end
    h.stop = h.at + found - 1
    h.length = h.stop + #part.value
end
--@ end
--@ when opaque

-- Any bytes, as many as are there.
function part_of.opaque(h, part)
    if h.at >= h.available then return true end
    h.length = math.min(h.available, h.at + part.most)
end
--@ end
--@ when ends

-- The frame ends with the last field of its message: what the fields need is where that is.
function part_of.ends(h, part, layout)
    local stop = math.min(h.available, part.most)
    local fault = { short = true }
    if h.at <= stop and stop > 0 then
        local c = { layout = layout, tvb = h.tvb(h.start, stop):tvb(), header = h, at = h.at, stop = stop, open = true }
        c.open_stop = stop
        _, fault = attempt(function() return read_message(c, coded_message(c)) end)
        if not fault then
            h.length = c.at
            return false
        end
    end
    if not fault.short then error(fault, 0) end
    if h.available >= part.most then header_fail(h, part.rule, part.name, 0) end
    return true
end
--@ end

local function measure_as(layout, tvb, start, stop)
    local h = { tvb = tvb, start = start, available = stop - start, at = 0, kept = {}, places = {} }
    for index, part in ipairs(layout.frame) do
        h.places[index] = h.at
        if part_of[part.kind](h, part, layout) then return nil end
    end
    h.places[#layout.frame + 1] = h.at
    h.payload, h.layout = h.at, layout
--@ when codes
    if h.key and not message_of(layout, h.key) then header_fail(h, "unknown_code", "code", h.code_at) end
--@ end
    if (h.stop or h.length) < h.payload then
        header_fail(h, layout.size and layout.size.rule or "frame_limit", layout.size and layout.size.name or "", 0)
    end
    return h
end

-- The header of the frame at `start`; nothing while it is not all there. Whether the frame is, is another question. Of
-- several frames, the first one is right whose header has no fault.
local function measure(layout, tvb, start, stop)
    for number, other in ipairs(layout.others) do
        if layout.unseen and number == #layout.others then return measure_as(other, tvb, start, stop) end
        local h, fault = attempt(measure_as, other, tvb, start, stop)
        if not fault then return h end
    end
    return measure_as(layout, tvb, start, stop)
end

-- Items of the header, as each part lies in the frame.
local show_part = {}

local function show_int_part(c, part, at)
    show(c, part.field or part.name, at, part.wire.size, part.wire.little)
end

function show_part.size(c, part, at, behind)
    add_number(c.tree, part.field or part.name, c.tvb(at, behind - at), part.wire, c.header.size_shown)
end
--@ when code

function show_part.code(c, part, at, behind)
--@ when code_text
    if part.wire.kind == "run" then
        show_text(c, part.field or part.name, at, behind - at - #part.wire.stop)
        return
    end
--@ end
--@ when code_number
    if c.header.code_shown then
        c.tree:add(F[part.field or part.name], c.tvb(at, behind - at), c.header.code_shown)
        return
    end
--@ end
    if c.header.codes and part.place > c.header.codes then return end
    local wire = part.wire.kind == "int" and part.wire or part.wire.wire
    show(c, part.field or part.name, at, wire.size, wire.little)
end
--@ end
--@ when head
show_part.head = show_int_part
--@ end
--@ when magic

function show_part.magic(c, part, at)
    show(c, part.field or part.name, at, #part.value)
end
--@ end
--@ when trailer until

local function show_end(c, part)
    show(c, part.field or part.name, c.header.stop, #part.value)
end

show_part.trailer, show_part["until"] = show_end, show_end
--@ end
--@ when ends

function show_part.ends() end
--@ end
--@ when said

function show_part.said() end
--@ end
--@ when opaque

function show_part.opaque() end
--@ end
--@ when escaped

function show_part.escaped(c, part, at)
    local h = c.header
    local size = h.size < part.escape and 1 or 1 + part.wide.size
    c.tree:add(F[part.field or part.name], c.tvb(at, size), h.size)
    if h.mask_at then show(c, part.mask_key, h.mask_at, 4) end
end
--@ end
--@ when kept

function show_part.kept(c, part, at)
    if part.field then show(c, part.field, at, part.size) end
end
--@ end
--@ when words

function show_part.line() end
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

function coded_message(c)
    for _, part in ipairs(c.layout.frame) do
--@ when words
        if part.kind == "line" then return read_line(c, part) end
--@ end
--@ when codes
        if c.header.key then return message_of(c.layout, c.header.key) end
--@ end
--@ when code
        if part.kind == "code" then
            local message = message_of(c.layout, code_at(c.tvb, part.wire, c.header.code_at))
            if not message then fail(c, "unknown_code", part.name, c.header.code_at) end
            return message
        end
--@ end
    end
    return c.layout.messages[1]
end

--@ when kept

-- Reads the fields that travel in the header: raw bytes, or what the message says of them. A code is shown already.
function read_kept(c, message, scope, done)
    local at, tree = c.at, c.tree
    c.scope, c.halves, c.begun = scope, {}, {}
--@ when loose
    for _, part in ipairs(c.layout.frame) do
        if part.loose then done[part.name] = true end -- even one that is absent
    end
--@ end
    for _, kept in ipairs(c.header.kept) do
        c.tree = not kept.is_code and tree or nil
        done[kept.part.name] = true
        if kept.part.field then
            scope[kept.part.name] = { at = kept.at, length = kept.part.size }
        else
            for _, row in ipairs(message.fields) do
                if row.name == kept.part.name then
                    c.at = kept.at
                    scope[row.name] = value(c, row.wire, row.field, row.key or row.name)
--@ when when
                    scope[row.name .. ":halves"] = halves_of(c, row.wire, kept.at)
--@ end
                end
            end
        end
    end
    c.at, c.tree = at, tree
end

--@ end
-- Reads the fields of a message.
function read_message(c, message)
    local scope, done = {}, {}
    c.message, c.code, c.values = message, message.code, scope
--@ when kept
    read_kept(c, message, scope, done)
--@ end
--@ when escaped
    for _, part in ipairs(c.layout.frame) do
        if part.kind == "escaped" and part.mask_bit ~= 0 then
            scope[part.mask_key] = c.header.mask_at and { at = c.header.mask_at, length = 4 } or false
        end
    end
--@ end
    return read_fields(c, message, "", scope, done)
end

-- What is left behind the last field: nothing, or the padding that a peer is known to add.
local function finish(c)
    if c.words_end and c.words[1] then fail(c, "extra_fields", "", c.words[1].at) end
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

--@ when trailer

local function check_trailer(c)
    for _, part in ipairs(c.layout.frame) do
        if part.kind == "trailer" and raw_bytes(c, c.stop, #part.value) ~= part.value then
            fail(c, "trailer", part.name, c.stop)
        end
    end
end
--@ end

local function read_frame(c)
    local h = c.header
--@ when escaped
    if h.mask_at then c.tvb = unmasked(c.tvb, h.mask_at) end
--@ end
    if c.tree then
        for index, part in ipairs(c.layout.frame) do
            show_part[part.kind](c, part, h.places[index], h.places[index + 1])
        end
    end
    c.at, c.stop, c.head_stop = h.payload, h.stop or h.length, h.head_stop
--@ when trailer
    check_trailer(c)
--@ end
    local message = coded_message(c)
    c.message = message
    local scope = read_message(c, message)
    finish(c)
--@ when body
    read_views(c, scope)
--@ end
    show_derived(c, c.message.derived, scope)
    return true
end

local function cursor(layout, tvb, at, header, tree)
    return { layout = header.layout or layout, tvb = tvb(at, header.length):tvb(), header = header, tree = tree, at = 0, stop = 0 }
end

-- Judges the whole frame without showing it: whether it is good and without oddities, and else its fault.
local function judge(layout, tvb, at, header)
    local c = cursor(layout, tvb, at, header, nil)
    local _, fault = attempt(read_frame, c)
    return not fault and not c.odd, fault
end

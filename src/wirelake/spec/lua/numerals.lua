--@ when varint digits

-- ---------------------------------------------------------------- numbers of as many bytes as they need

-- Each returns the number, its size and how it is shown; nothing where the bytes go on behind `raw`; or nothing and the
-- fault. `left` bytes are there, of which `raw` has as many as the longest number takes.
local numeral_of, longest_of = {}, {}
--@ end
--@ when varint

function longest_of.varint(wire) return wire.most end
--@ end
--@ when ber

-- A length as ASN.1 writes it.
local function ber_of(wire, raw)
    if raw == "" then return nil end
    local first, low, high = raw:byte(1), 0, 0
    if first < 0x80 then return first, 1, wire.wide and UInt64.new(first, 0) or first end
    local size = first - 0x80
    if size == 0 or size >= wire.most then return nil, { rule = "varint", offset = 0 } end
    if size >= #raw then return nil end
    for i = 2, size + 1 do
        low = low * 0x100 + raw:byte(i)
        high = high * 0x100 + math.floor(low / 2 ^ 32)
        low = low % 2 ^ 32
    end
    local is_long = raw:byte(2) == 0 or (size == 1 and low < 0x80)
    if high >= 2 ^ 31 or (is_long and not wire.lenient) then return nil, { rule = "varint", offset = 0 } end
    return high * 2 ^ 32 + low, size + 1, wire.wide and UInt64.new(low, high) or low
end
--@ end
--@ when wider

-- A number in one byte, or behind a byte that announces how wide it is, or stands for -1.
local function wider_of(wire, raw)
    if raw == "" then return nil end
    local first = raw:byte(1)
    local made = wire.signed and Int64 or UInt64
    if first < wire.wider[1].first then return first, 1, wire.wide and made.new(first, 0) or first end
    local inner, fewest = nil, wire.wider[1].first
    for _, one in ipairs(wire.wider) do
        if one.first == first then inner = one break end
        if one.size > 0 then fewest = 2 ^ (8 * one.size) end
    end
    if not inner then return nil, { rule = "varint", offset = 0 } end
    if inner.size == 0 then return -1, 1, wire.wide and Int64.new(-1) or -1 end
    if inner.size >= #raw then return nil end
    local low, high = 0, 0
    for i = 1, inner.size do
        low = low * 0x100 + raw:byte(inner.little and inner.size + 2 - i or i + 1)
        high = high * 0x100 + math.floor(low / 2 ^ 32)
        low = low % 2 ^ 32
    end
    local value = high * 2 ^ 32 + low
    if high >= 2 ^ 31 or (value < fewest and not wire.lenient) then return nil, { rule = "varint", offset = 0 } end
    return value, inner.size + 1, wire.wide and made.new(low, high) or low
end
--@ end
--@ when signed

-- The number with a sign that both halves of one without stand for.
local function with_sign(wire, low, high)
    if wire.signed == "zigzag" then
        local is_negative = low % 2 == 1
        low, high = math.floor(low / 2) + (high % 2) * 2 ^ 31, math.floor(high / 2)
        if is_negative then low, high = 2 ^ 32 - 1 - low, 2 ^ 32 - 1 - high end
    end
    if wire.bits and low >= 2 ^ 31 then high = 2 ^ 32 - 1 end
    local value = (high >= 2 ^ 31 and high - 2 ^ 32 or high) * 2 ^ 32 + low
    return value, wire.wide and Int64.new(low, high) or value
end
--@ end
--@ when varint

function numeral_of.varint(wire, raw)
--@ when wider
    if wire.wider then return wider_of(wire, raw) end
--@ end
--@ when ber
    if wire.ber then return ber_of(wire, raw) end
--@ end
    local size, high, low = 0, 0, 0
    repeat
        if size == wire.most then return nil, { rule = "varint", offset = size - 1 } end
        if size == #raw then return nil end
        size = size + 1
    until raw:byte(size) < 0x80
    local first, last = raw:byte(1), raw:byte(size)
    local is_long = size > 1 and (wire.high_first and first == 0x80 or not wire.high_first and last == 0)
    if is_long and not wire.lenient then return nil, { rule = "varint", offset = size - 1 } end
    for i = 1, size do
        local group = raw:byte(wire.high_first and i or size + 1 - i) % 0x80
        low = low * 0x80 + group
        high = high * 0x80 + math.floor(low / 2 ^ 32)
        low = low % 2 ^ 32
    end
    if high >= (wire.bits and 1 or 2 ^ 32) then return nil, { rule = "varint", offset = size - 1 } end
--@ when signed
    if wire.signed then
        local value, shown = with_sign(wire, low, high)
        return value, size, shown
    end
--@ end
    return high * 2 ^ 32 + low, size, wire.wide and UInt64.new(low, high) or low
end
--@ end
--@ when digits

do

function longest_of.digits(wire)
    if wire.size then return wire.size end
    local spelled = math.max(#wire.low, #wire.high)
    return (wire.lenient and 4 * spelled or spelled) + #wire.stop
end

local function is_digit(wire, byte, place)
    if byte == 0x2D then return place == 1 and wire.low:sub(1, 1) == "-" end
    if byte >= 0x30 and byte <= (wire.base == 8 and 0x37 or 0x39) then return true end
    return wire.base == 16
        and ((byte >= 0x61 and byte <= 0x66) or (wire.lenient and byte >= 0x41 and byte <= 0x46) or false)
end

-- Digits without the first bytes of what ends them, where the rest of that is not there yet.
local function without_begun(text, stop)
    for size = #stop - 1, 1, -1 do
        if text:sub(-size) == stop:sub(1, size) then return text:sub(1, #text - size) end
    end
    return text
end

-- Whether one number is below another, both as shortest text.
local function is_below(left, right)
    local left_minus, right_minus = left:sub(1, 1) == "-", right:sub(1, 1) == "-"
    if left_minus ~= right_minus then return left_minus end
    if #left ~= #right then return (#left < #right) ~= left_minus end
    return left ~= right and (left < right) ~= left_minus
end

-- The text as the number is written.
local function spelled(text)
    local minus, digits = text:match("^(-?)0*(.-)$")
    if digits == "" then return "0" end
    return minus .. digits:lower()
end

-- As many bytes as the number always has.
local function filled(wire, short)
    local fill = (wire.pad or "0"):rep((wire.size or 0) - #short)
    if wire.pad then return wire.before and fill .. short or short .. fill end
    local minus, digits = short:match("^(-?)(.*)$")
    return minus .. fill .. digits
end

-- A number of more than 32 bits, of base 8.
local function from_octal(wire, text)
    local low, high = 0, 0
    for digit in text:gmatch("%d") do
        low = low * 8 + tonumber(digit)
        high = (high * 8 + math.floor(low / 2 ^ 32)) % 2 ^ 32
        low = low % 2 ^ 32
    end
    local made = (wire.signed and Int64 or UInt64).new(low, high)
    return text:sub(1, 1) == "-" and -made or made
end

local function shown_digits(wire, text)
    if wire.base == 10 then return wire.wide and (wire.signed and Int64.new(text) or UInt64.new(text)) or tonumber(text) end
    if not wire.wide then return tonumber(text, wire.base) end
    if wire.base == 8 then return from_octal(wire, text) end
    local digits = ("0"):rep(16) .. text:gsub("%-", "")
    local made = (wire.signed and Int64 or UInt64).fromhex(digits:sub(-16))
    return text:sub(1, 1) == "-" and -made or made
end

-- The same for a number in so many bytes, filled up at one end.
local function padded_digits(wire, text, stop)
    if not stop then return nil end
    local first, last = 1, #text
    while last >= first and not wire.before and text:sub(last, last) == wire.pad do last = last - 1 end
    while first <= last and wire.before and text:sub(first, first) == wire.pad do first = first + 1 end
    local digits, wrong = text:sub(first, last), nil
    for i = #digits, 1, -1 do
        if not is_digit(wire, digits:byte(i), i) then wrong = i end
    end
    if wrong or not digits:find("[^-]") then
        local at = wire.before and first - 1 or 0
        return nil, { rule = "digits", offset = math.min(at + (wrong or #digits + 1) - 1, #text - 1) }
    end
    local short = spelled(digits)
    if filled(wire, short) ~= text or is_below(short, wire.low) or is_below(wire.high, short) then
        return nil, { rule = "digits", offset = 0 }
    end
    return tonumber(short, wire.base), stop, shown_digits(wire, short)
end

function numeral_of.digits(wire, raw, left)
    local most = longest_of.digits(wire)
    local stop = left
    if wire.stop ~= "" then
        stop = raw:find(wire.stop, 1, true)
        stop = stop and stop - 1
    end
    if wire.size then stop = #raw == most and most or nil end
    local is_full = #raw == most
    local text = stop and raw:sub(1, stop) or is_full and raw or without_begun(raw, wire.stop)
    if wire.pad then return padded_digits(wire, text, stop) end
    local wrong = #text
    for i = #text, 1, -1 do
        if not is_digit(wire, text:byte(i), i) then wrong = i - 1 end
    end
    local is_over = (stop and stop > #text) or (not stop and is_full)
    if wrong < #text or is_over or (stop == wrong and not text:find("[^-]")) then
        return nil, { rule = "digits", offset = math.min(wrong, most - 1) }
    end
    if not stop then return nil end
    local short = spelled(text)
    if (not wire.lenient and filled(wire, short) ~= text) or is_below(short, wire.low) or is_below(wire.high, short) then
        return nil, { rule = "digits", offset = 0 }
    end
    return tonumber(short, wire.base), stop + #wire.stop, shown_digits(wire, short)
end

end
--@ end
--@ when varint digits

local function numeral(wire, tvb, at, left)
    local most = math.min(left, longest_of[wire.kind](wire))
    return numeral_of[wire.kind](wire, most > 0 and tvb:raw(at, most) or "", left)
end

local function plain_numeral(c, wire, path)
    local at = c.at
    local found, size, shown = numeral(wire, c.tvb, at, c.stop - at)
    if found == nil and size == nil then fail(c, "int_fits", path, at, true) end
    if found == nil then fail(c, size.rule, path, at + size.offset) end
    c.at, c.shown = at + size, shown
    return found, shown
end
--@ end

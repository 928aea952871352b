--@ when checksum

-- ---------------------------------------------------------------- sums over the bytes of a frame

local sums = {}

-- Bits as a number that is not negative.
local function unsigned(bits)
    return bits % 2 ^ 32
end
--@ end
--@ when crc32

function sums.crc32(raw)
    local sum = 0xFFFFFFFF
    for i = 1, #raw do
        sum = bit.bxor(sum, raw:byte(i))
        for _ = 1, 8 do
            local step = bit.band(sum, 1) == 1 and 0xEDB88320 or 0
            sum = bit.bxor(bit.rshift(sum, 1), step)
        end
    end
    return unsigned(bit.bnot(sum))
end
--@ end
--@ when crc16_modbus

function sums.crc16_modbus(raw)
    local sum = 0xFFFF
    for i = 1, #raw do
        sum = bit.bxor(sum, raw:byte(i))
        for _ = 1, 8 do
            local step = bit.band(sum, 1) == 1 and 0xA001 or 0
            sum = bit.bxor(bit.rshift(sum, 1), step)
        end
    end
    return sum
end
--@ end
--@ when crc16_ccitt

function sums.crc16_ccitt(raw)
    local sum = 0xFFFF
    for i = 1, #raw do
        sum = bit.bxor(sum, raw:byte(i) * 0x100)
        for _ = 1, 8 do
            local step = bit.band(sum, 0x8000) ~= 0 and 0x1021 or 0
            sum = bit.band(bit.bxor(bit.lshift(sum, 1), step), 0xFFFF)
        end
    end
    return sum
end
--@ end
--@ when adler32

function sums.adler32(raw)
    local low, high = 1, 0
    for i = 1, #raw do
        low = (low + raw:byte(i)) % 65521
        high = (high + low) % 65521
    end
    return high * 0x10000 + low
end
--@ end
--@ when sum8 sum16

local function total(raw)
    local sum = 0
    for i = 1, #raw do sum = sum + raw:byte(i) end
    return sum
end
--@ end
--@ when sum8

function sums.sum8(raw) return total(raw) % 0x100 end
--@ end
--@ when sum16

function sums.sum16(raw) return total(raw) % 0x10000 end
--@ end
--@ when xor8

function sums.xor8(raw)
    local sum = 0
    for i = 1, #raw do sum = bit.bxor(sum, raw:byte(i)) end
    return sum
end
--@ end
--@ when checksum

-- The sum covers what is before it, from the first byte of the frame or from a field on.
function read.checksum(c, wire, field, path)
    local at = c.at
    local given, shown = plain_number(c, wire.wire, path)
    local begin = wire.since and c.begun[wire.since] or 0
    if c.tree then add_number(c.tree, field, c.tvb(at, c.at - at), wire.wire, shown) end
    if given ~= sums[wire.sum](raw_bytes(c, begin, at - begin)) then
        fail(c, "checksum", path, at)
    end
end
--@ end

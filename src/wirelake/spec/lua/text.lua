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

-- The same of UTF-16: the first half of a character without the other one.
local function first_bad_16(raw, low)
    local i = 1
    local function half(at)
        local byte = raw:byte(at + low)
        return raw:byte(at + 1) and byte and byte >= 0xD8 and byte <= 0xDF and (byte < 0xDC and "first" or "second")
    end
    while i < #raw do
        local found = half(i)
        if found == "second" or (found and half(i + 2) ~= "second") then return i - 1 end
        i = i + (found and 4 or 2)
    end
    return #raw % 2 == 1 and #raw - 1 or nil
end

-- Where the first bytes are that are no text, by character set.
local BAD_IN = {
    ["utf-8"] = first_bad,
    ascii = function(raw)
        local found = raw:find("[\128-\255]")
        return found and found - 1
    end,
    ["utf-16-le"] = function(raw) return first_bad_16(raw, 1) end,
    ["utf-16-be"] = function(raw) return first_bad_16(raw, 0) end,
}

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

local CHARSETS = {
    ["utf-8"] = ENC_UTF_8, ascii = ENC_ASCII, ["utf-16-le"] = ENC_UTF_16 + ENC_LITTLE_ENDIAN, ["utf-16-be"] = ENC_UTF_16,
    gbk = ENC_GB18030, gb18030 = ENC_GB18030, ["euc-kr"] = ENC_EUC_KR,
    ["iso-8859-1"] = ENC_ISO_8859_1, ["iso-8859-2"] = ENC_ISO_8859_2, ["iso-8859-15"] = ENC_ISO_8859_15,
    ["windows-1250"] = ENC_WINDOWS_1250, ["windows-1251"] = ENC_WINDOWS_1251, ["windows-1252"] = ENC_WINDOWS_1252,
    cp437 = ENC_CP437, cp866 = ENC_CP866, cp037 = ENC_EBCDIC_CP037,
}

-- Text that is not UTF-8, or that Wireshark would cut at a zero byte, gets its bytes as a child.
local function show_text(c, field, at, size, charset)
    if not c.tree then return nil end
    local range, raw = c.tvb(at, size), raw_bytes(c, at, size)
    if charset and charset ~= "utf-8" then return (c.tree:add_packet_field(F[field], range, CHARSETS[charset])) end
    if not first_bad(raw) and not raw:find("\0", 1, true) then
        return (c.tree:add_packet_field(F[field], range, ENC_UTF_8))
    end
    local item = c.tree:add(F[field], range, (replaced(raw):gsub("\0", "\226\144\128")))
    item:add(F["raw_text"], range)
    return item
end
--@ end

--@ when choice

-- ---------------------------------------------------------------- values that a tag announces

-- The values of a tag that is bytes are found by them, others by their number.
local function case_of(c, known, tag)
    if type(tag) == "table" then tag = raw_bytes(c, tag.at, tag.length) end
    return known.cases[tag]
end

-- A value may hold the choice itself, to a limit.
function read.choice(c, wire, field, path)
    local at, known = c.at, CHOICES[wire.name]
    c.depth = c.depth or 0
    if c.depth >= wire.depth then fail(c, "depth_limit", path, at) end
    if known.only then
        c.depth = c.depth + 1
        local inside = value(c, known.only.wire, known.only.field, path)
        c.depth = c.depth - 1
        return inside
    end
    local outer = open(c, path)
    local tag = value(c, known.tag, known.tag_field, path .. ".tag")
    local case = case_of(c, known, tag)
    if case == nil then fail(c, "unknown_tag", path .. ".tag", at) end
    local found
    if case then
        c.depth = c.depth + 1
        found = value(c, case.wire, case.field, path .. ".value")
        c.depth = c.depth - 1
    end
    close(c, outer)
    return { tag = tag, value = found }
end
--@ end

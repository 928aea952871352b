--@ when tags

-- ---------------------------------------------------------------- tag tables

local function tag_row(wire, code)
    for _, row in ipairs(wire.rows) do
        if row.code == code then return row end
    end
end

local function check_required(c, wire, scope, path)
    if not wire.demand or (wire.waived and (scope[wire.waived] or 0) > 0) then return end
    for _, row in ipairs(wire.rows) do
        if contains(row.required or {}, c.code) and scope[row.name] == nil then
            fail(c, "header_required", path .. "." .. row.name, c.at)
        end
    end
end

local function read_tag(c, wire, field, path, scope)
    local at = take(c, 1, path, "header_fits")
    local row = tag_row(wire, c.tvb(at, 1):uint())
    if not row then fail(c, "unknown_header", path, at) end
    local here = path .. "." .. row.name
    if not wire.anywhere and not contains(row.allowed, c.code) then fail(c, "header_not_allowed", here, at) end
    local found, item = true, nil
    if row.wire then
        c.in_tags = true
        found, item = value(c, row.wire, row.field, here)
        c.in_tags = false
    elseif c.tree then
        item = c.tree:add(F[row.field], c.tvb(at, 1), true)
    end
    if c.tree then add(item or c.tree, wire.code_field, c.tvb(at, 1)) end
    scope[row.name] = found
    scope[#scope + 1] = row.name
end

-- The list part of the scope is the order on the wire.
function read.tags(c, wire, field, path)
    local scope, frame_stop = {}, c.stop
    c.stop = c.head_stop or c.stop
    local outer = open(c, path)
    while c.at < c.stop do read_tag(c, wire, field, path, scope) end
    close(c, outer)
    c.stop = frame_stop
    check_required(c, wire, scope, path)
    return scope
end
--@ end

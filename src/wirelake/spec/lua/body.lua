--@ when body

-- ---------------------------------------------------------------- bodies

function read.body(c, wire, field, path)
    local at, size = c.at, c.stop - c.at
    if wire.exactly and size ~= wire.exactly then fail(c, "body_length", path, at) end
    if wire.most and size > wire.most then fail(c, wire.most_rule, path, at) end
    c.at = c.stop
--@ when text
    if wire.text then
        show_text(c, field, at, size)
        return { at = at, length = size }
    end
--@ end
    show(c, field, at, size)
    return { at = at, length = size }
end

local function body_row(message)
    for _, row in ipairs(message.fields) do
        if row.wire.kind == "body" then return row end
    end
end

local function nothing_inside(c, wire, scope)
    return wire.empty == "absent" or (wire.empty_if and derive.at_least(c, wire.empty_if, scope))
end

-- Whether the views look into the body.
local function looked_into(c, scope)
    local row = body_row(c.message)
    if not row then return true end
    if row.wire.opaque_if and (reach(scope, row.wire.opaque_if) or 0) ~= 0 then return false end
    local body = scope[row.name]
    return (body ~= nil and body.length > 0) or not nothing_inside(c, row.wire, scope)
end

local function has_all(found, names)
    for _, name in ipairs(names) do
        if not found or not found.members or not found.members[name] then return false end
    end
    return true
end

-- Reads the body once more through its views.
local function read_views(c, scope)
    local row, views = body_row(c.message), c.message.views
    local body = row and scope[row.name]
    if not views or #views == 0 or not body or not looked_into(c, scope) then return end
    c.in_body = true
    c.at, c.stop, c.scope = body.at, body.at + body.length, scope
    if body.length == 0 and row.wire.empty == "refused" then fail(c, "body_empty", row.key or row.name, c.at) end
    local prefix = row.wire.prefix
    local prefixed = prefix and c.tvb:raw(c.at, math.min(#prefix, body.length)) == prefix
    if prefixed then c.at = c.at + #prefix end
    for _, view in ipairs(views) do
        local at, path = c.at, view.key or view.name
        local found = value(c, view.wire, view.field, path)
        if prefixed and not has_all(found, row.wire.prefix_needs) then fail(c, row.wire.prefix_rule, path, at) end
        scope[view.name] = found
    end
    if c.at ~= c.stop then fail(c, "leftover_bytes", "body", c.at) end
end
--@ end

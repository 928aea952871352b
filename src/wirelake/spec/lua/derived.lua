
-- ---------------------------------------------------------------- values that are computed

function derive.frame_length(c, how, scope)
    local less = how.less and reach(scope, how.less)
    return c.header.length - (less and less.length or 0)
end

function derive.payload_length(c)
    return c.header.size
end

function derive.length_of(c, how, scope)
    local found = reach(scope, how.field)
    return found and found.length or 0
end

function derive.at_least(c, how, scope)
    return (reach(scope, how.field) or 0) >= how.limit
end

function derive.empty(c, how, scope)
    return reach(scope, how.field) == nil
end

function derive.order_of(c, how, scope)
    return reach(scope, how.field) or {}
end

function derive.wide(c, how)
    return c.header.size >= how.limit
end

function derive.masked(c)
    return c.header.mask_at ~= nil
end
--@ when lookup

function derive.lookup(c, how, scope)
    local found = look_up(c, how, scope)
    if type(found) == "number" then return Int64.new(found) end
    if not how.number then return found end
    local digits = digits_in(c, found)
    return digits and Int64.new(digits)
end
--@ end
--@ when body

function derive.present(c, how, scope)
    if not looked_into(c, scope) then return nil end
    return reach(scope, how.field) ~= nil
end
--@ end

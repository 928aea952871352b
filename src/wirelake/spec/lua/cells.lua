--@ when cells

-- ---------------------------------------------------------------- cells

local function read_cell(c, wire, field, path)
    local outer = open(c, path)
    local at = take(c, wire.head.size, path, "cell_fits")
    local head = number(c.tvb, wire.head, at)
    local fid = math.floor(head / 2 ^ wire.id_shift)
    local kind = wire.types[bit.band(math.floor(head / 2 ^ wire.type_shift), wire.type_mask) + 1]
    local flagged = bit.band(head, wire.flag_mask) ~= 0
    for _, part in ipairs(wire.shown) do show(c, part, at, wire.head.size, wire.head.little) end
    if fid > wire.id_max then fail(c, "cell_id", path, at) end
    if not kind then fail(c, "cell_type", path, at) end
    if c.tree then c.tree:append_text((": field %d %s"):format(fid, kind.name)) end
    local found = { fid = fid, type = kind.name, odd = flagged or not kind.wire, at = c.at, length = 0 }
    local inner = kind.wire
    if inner and inner.kind == "run" then
        local run = read.run(c, inner, kind.field, path, "cell")
        found.at, found.length = run.at, run.length
    elseif inner then
        take(c, inner.size, path, "cell_fits")
        show(c, kind.field, found.at, inner.size, inner.little)
    end
    close(c, outer)
    return found
end

function read.cells(c, wire, field, path)
    local outer = open(c, path)
    local cells, seen = {}, {}
    while c.at < c.stop do
        local cell = read_cell(c, wire, field, ("%s[%d]"):format(path, #cells))
        c.odd = c.odd or cell.odd or seen[cell.fid]
        seen[cell.fid] = true
        cells[#cells + 1] = cell
    end
    if c.tree then c.tree:append_text((" (%d)"):format(#cells)) end
    close(c, outer)
    return cells
end
--@ end
--@ when signature

local function signature_cell(wire, cells)
    for i = #cells, 1, -1 do
        if cells[i].fid == wire.fid then return cells[i] end
    end
end

-- A structure inside the last cell of a number; read once without showing it, to see whether it is one.
function read.signature(c, wire, field, path)
    local cell = signature_cell(wire, c.scope[wire.cells])
    if not cell or cell.type ~= "BYTES" or cell.length == 0 then return nil end
    if c.tvb(cell.at, 1):uint() ~= wire.lead then return nil end
    local at, stop, tree = c.at, c.stop, c.tree
    local found
    for _, form in ipairs(wire.forms) do
        if form.size == cell.length and not found then
            c.at, c.stop, c.tree = cell.at, cell.at + cell.length, nil
            found = read_fields(c, form.struct, path, {})
            if form.first and found.index ~= 0 or not form.first and found.index <= 0 then break end
            c.at, c.tree = cell.at, tree
            read.nested(c, form, field, path)
        end
    end
    c.at, c.stop, c.tree = at, stop, tree
    return found
end
--@ end

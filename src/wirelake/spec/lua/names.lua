-- Wireshark has each name and each title once: one that is taken gets a mark of ours.
local function new_proto(name, title)
    for _, own in ipairs({ name, "wl_" .. name }) do
        for _, shown in ipairs({ title, title .. " (wirelake)" }) do
            local ok, made = pcall(Proto, own, shown)
            if ok then return own, made end
        end
    end
    error("Wireshark has protocols named " .. name .. " and wl_" .. name .. ": make the dissector with --name")
end


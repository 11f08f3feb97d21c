-- SPDX-License-Identifier: Apache-2.0
-- Wireshark dissectors for nanet's packets: MGP (readout boards -> card) and MTP (trigger -> L0 trigger processor).
-- Layouts and names of refusals: docs/formats.md. Wireshark 3.6 or newer.

set_plugin_info({
  version = "1.0.0",
  description = "MGP and MTP of nanet",
  repository = "nanet",
})

local LSB_NS = 0.097464731802 -- one fine-time step
local LSB_PER_FRAME = 65536
local PMS, PMS_PER_BOARD, BOARDS = 1952, 512, 4
local MERGED = 0xFF
local EVENT_HEADER, SLOTS = 8, 32
local FIXED_EVENT = EVENT_HEADER + 2 * SLOTS
local GROUP, SEVERITY = expert.group, expert.severity

local function bit_of(value, bit)
  return math.floor(value / 2 ^ bit) % 2 == 1
end

local byte = string.byte

-- Whether a filter, column, tap or the packet details use one of these fields. Other items are left out:
-- Wireshark dissects every packet of a file, and most items are hits and primitives.
local function used(root, fields)
  for _, field in ipairs(fields) do
    if root:referenced(field) then return true end
  end
  return false
end

-- Integers of Wireshark's Lua may be floats; %d needs integers.
local function whole(value)
  return string.format("%.0f", value)
end

-- Expert information of a protocol by name, and the list for its registration.
local function experts(prefix, list)
  local by_name, registered = {}, {}
  for _, entry in ipairs(list) do
    local name, text, group, severity = entry[1], entry[2], entry[3], entry[4]
    local item = ProtoExpert.new(
      prefix .. "." .. name, name .. ": " .. text, group or GROUP.MALFORMED, severity or SEVERITY.ERROR)
    by_name[name] = item
    registered[#registered + 1] = item
  end
  return by_name, registered
end

-- Marks a refused packet: expert information at the faulty item, a filter field, and the packet list.
local function refuse(root, field, infos, name, item, pinfo)
  root:add(field, name):set_generated()
  local place = item or root
  place:add_proto_expert_info(infos[name])
  pinfo.cols.info:append(" [refused: " .. name .. "]")
end

-- Ports with registered protocols.
local ports = {}

-- Wireshark tries the protocols of both ports, lower port first; these protocols use the destination port.
local function comes_from(port, pinfo)
  return pinfo.src_port == port and pinfo.dst_port ~= port
end

------------------------------------------------------------------------------------------------------------ MGP

local mgp = Proto("mgp", "nanet multi-event GPU packet")

local board_names = { [0] = "board 0", [1] = "board 1", [2] = "board 2", [3] = "board 3", [255] = "merged stream" }
local source_names = { [0x1C] = "RICH" }

local F = {
  source = ProtoField.uint8("mgp.source", "Source ID", base.HEX, source_names),
  board = ProtoField.uint8("mgp.board", "Board ID", base.DEC, board_names),
  version = ProtoField.uint8("mgp.version", "Version", base.DEC),
  flags = ProtoField.uint8("mgp.flags", "Flags", base.HEX),
  sob = ProtoField.bool("mgp.flags.sob", "Start of burst", 8, nil, 0x01),
  eob = ProtoField.bool("mgp.flags.eob", "End of burst", 8, nil, 0x02),
  truncated = ProtoField.bool("mgp.flags.truncated", "Board truncated this frame", 8, nil, 0x04),
  error = ProtoField.bool("mgp.flags.error", "Board error", 8, nil, 0x08),
  fixed = ProtoField.bool("mgp.flags.fixed", "Fixed slots of 32 hits", 8, nil, 0x10),
  last = ProtoField.bool("mgp.flags.last", "Last packet of the frame", 8, nil, 0x20),
  padded = ProtoField.bool("mgp.flags.padded", "Padded", 8, nil, 0x40),
  length = ProtoField.uint16("mgp.length", "Length", base.DEC),
  events = ProtoField.uint8("mgp.events", "Events", base.DEC),
  encoding = ProtoField.uint8("mgp.encoding", "Hit encoding", base.DEC, nil, 0xF0),
  index = ProtoField.uint8("mgp.index", "Packet of the frame", base.DEC, nil, 0x0F),
  sequence = ProtoField.uint32("mgp.sequence", "Sequence number", base.DEC),
  frame = ProtoField.uint24("mgp.frame", "Frame", base.DEC),
  burst = ProtoField.uint8("mgp.burst", "Burst number mod 256", base.DEC),
  eob_frames = ProtoField.uint32("mgp.eob.frames", "Frames sent", base.DEC),
  eob_packets = ProtoField.uint32("mgp.eob.packets", "Packets sent", base.DEC),
  eob_events = ProtoField.uint64("mgp.eob.events", "Events sent", base.DEC),
  eob_hits = ProtoField.uint64("mgp.eob.hits", "Hits sent", base.DEC),
  timestamp = ProtoField.uint32("mgp.event.timestamp", "Timestamp", base.DEC),
  fine = ProtoField.uint8("mgp.event.fine", "Fine time", base.DEC),
  stored = ProtoField.uint8("mgp.event.stored", "Hits stored", base.DEC),
  seen = ProtoField.uint8("mgp.event.seen", "Hits seen", base.DEC),
  event_flags = ProtoField.uint8("mgp.event.flags", "Flags", base.HEX),
  event_truncated = ProtoField.bool("mgp.event.flags.truncated", "Truncated", 8, nil, 0x01),
  ns = ProtoField.double("mgp.event.ns", "Time since start of burst (ns)"),
  pm = ProtoField.uint16("mgp.hit.pm", "PM", base.DEC, nil, 0x07FF),
  time = ProtoField.int32("mgp.hit.time", "Time difference to the event (LSB)", base.DEC),
  slots = ProtoField.bytes("mgp.event.unused", "Unused slots"),
  padding = ProtoField.bytes("mgp.padding", "Padding"),
  excess = ProtoField.bytes("mgp.excess", "Bytes outside all events"),
  refusal = ProtoField.string("mgp.refusal", "Refused"),
}
for _, field in pairs(F) do table.insert(mgp.fields, field) end
local HIT_FIELDS = { F.pm, F.time }
local EVENT_FIELDS = {
  F.timestamp, F.fine, F.stored, F.seen, F.event_flags, F.event_truncated, F.ns, F.slots, F.excess, F.pm, F.time,
}

local mgp_expert, mgp_experts = experts("mgp", {
  { "short_header", "shorter than 16 bytes" },
  { "bad_version", "a version other than 1" },
  { "bad_source", "source ID differs from the configured one" },
  { "bad_board", "a board that is not configured" },
  { "bad_encoding", "a hit encoding other than 0" },
  { "length_mismatch", "length differs from the datagram, or an SOB is not 16 or an EOB not 40 bytes long" },
  { "oversized", "longer than the largest configured payload" },
  { "sob_eob_with_events", "an SOB or EOB with events or the last-packet flag, or both markers" },
  { "event_past_end", "an event extends past the packet's length" },
  { "trailing_bytes", "bytes between the last event and the packet's length" },
  { "timestamp_outside_frame", "an event of another frame" },
  { "hits_above_32", "an event with more than 32 hits stored" },
  { "seen_below_stored", "an event with fewer hits seen than stored" },
  { "pm_out_of_range", "a PM ID above 1951" },
  { "pm_of_other_board", "a PM of another board" },
  { "frame_beyond_spill", "a frame beyond the longest configured burst" },
  { "wrong_burst", "would start a third burst while two are open" },
  { "cut_short", "truncated in the capture: not checked", GROUP.UNDECODED, SEVERITY.WARN },
  { "ip_fragment", "received in IP fragments, which nanet refuses", GROUP.PROTOCOL, SEVERITY.WARN },
  { "board_error", "the board reports an error", GROUP.RESPONSE_CODE, SEVERITY.WARN },
  { "board_truncated", "the board truncated this frame", GROUP.RESPONSE_CODE, SEVERITY.NOTE },
})
mgp.experts = mgp_experts

mgp.prefs.port = Pref.uint("UDP port", 58913, "Destination of the boards' packets (card.listen)")
mgp.prefs.boards = Pref.string("Boards", "auto",
  "4, a list such as 0,1, or merged (card.boards); auto: 4 or merged, from the first valid packet")
mgp.prefs.source = Pref.uint("Source ID", 0x1C, "card.source; RICH is 28")
mgp.prefs.max_payload = Pref.uint("Largest payload", 1472, "card.max_payload")
mgp.prefs.max_frames = Pref.uint("Frames of a burst", 751500, "card.max_frames")
mgp.prefs.timeout_us = Pref.uint("Timeout (us)", 20000,
  "card.timeout_us: time from a new burst's first packet to the close of the old burst")

-- State from earlier packets, collected in order on the first pass and stored by packet number.
local bursts, merged_capture, wrong_burst

local function forget()
  bursts = { done = {}, sob = {}, candidates = {} }
  merged_capture = nil
  wrong_burst = {}
end

-- Boards of the preference: a set, or nil for auto.
local parsed_boards, parsed_text
local function configured_boards()
  local text = mgp.prefs.boards
  if text == parsed_text then return parsed_boards end
  parsed_text, parsed_boards = text, nil
  if text == "merged" then
    parsed_boards = { [MERGED] = true }
  elseif text == "4" then
    parsed_boards = { [0] = true, true, true, true }
  elseif text ~= "auto" then
    local set = {}
    for number in text:gmatch("[0-3]") do set[tonumber(number)] = true end
    if next(set) ~= nil then parsed_boards = set end
  end
  return parsed_boards
end

local FOUR, ONE = { [0] = true, true, true, true }, { [MERGED] = true }

-- First rule broken by the header; events are checked later.
local function header_refusal(h, size, allowed)
  if h.version ~= 1 then return "bad_version" end
  if h.source ~= mgp.prefs.source then return "bad_source" end
  if not allowed[h.board] then return "bad_board" end
  if h.encoding ~= 0 then return "bad_encoding" end
  if h.length < 16 or size < h.length or (size > h.length and not h.padded)
    or (h.sob and not h.eob and h.length ~= 16) or (h.eob and not h.sob and h.length ~= 40) then
    return "length_mismatch"
  end
  if size > mgp.prefs.max_payload then return "oversized" end
  if (h.sob or h.eob) and ((h.sob and h.eob) or h.events ~= 0 or h.last) then return "sob_eob_with_events" end
  return nil
end

-- Whether all events obey the rules. Reads bytes only: much faster than the items of add_event.
local function events_sound(raw, h, limit)
  local first, past = 0, PMS
  if h.board < BOARDS then
    first, past = PMS_PER_BOARD * h.board, math.min(PMS_PER_BOARD * (h.board + 1), PMS)
  end
  local at = 16 -- bytes before the event
  for _ = 1, h.events do
    if limit - at < EVENT_HEADER then return false end
    local _, b1, b2, b3, _, stored, seen = byte(raw, at + 1, at + 7)
    local size = h.fixed and FIXED_EVENT or EVENT_HEADER + 2 * stored
    if at + size > limit or b1 + 256 * b2 + 65536 * b3 ~= h.frame or stored > SLOTS or seen < stored then
      return false
    end
    for place = at + EVENT_HEADER + 1, at + EVENT_HEADER + 2 * stored, 2 do
      local low, high = byte(raw, place, place + 1)
      local pm = low + 256 * (high % 8)
      if pm < first or pm >= past then return false end
    end
    at = at + size
  end
  return at == limit
end

-- Texts of the 32 time differences of a hit.
local hit_times = {}
for steps = -16, 15 do hit_times[steps] = string.format(", %+.2f ns", 4 * steps * LSB_NS) end

local event_rules = {
  "timestamp_outside_frame", "hits_above_32", "seen_below_stored", "pm_out_of_range", "pm_of_other_board",
}

-- Adds one event to the tree, as far as captured. Returns its end; collects broken rules with their items.
local function add_event(tvb, root, h, number, at, limit, broken, hits)
  local function breaks(name, item)
    if broken[name] == nil then broken[name] = item end
  end
  if limit - at < EVENT_HEADER then
    breaks("event_past_end", limit > at and root:add(F.excess, tvb(at, limit - at)) or root)
    return nil
  end
  local timestamp, fine = tvb(at, 4):le_uint(), tvb(at + 4, 1):uint()
  local stored, seen = tvb(at + 5, 1):uint(), tvb(at + 6, 1):uint()
  local size = h.fixed and FIXED_EVENT or EVENT_HEADER + 2 * stored
  local there = math.min(size, limit - at)
  local event = root:add(mgp, tvb(at, there), string.format("Event %d: time %s.%03d, %d hit%s%s", number,
    whole(timestamp), fine, stored, stored == 1 and "" or "s", seen > stored and string.format(" of %d", seen) or ""))
  local timestamp_item = event:add_le(F.timestamp, tvb(at, 4))
  event:add(F.fine, tvb(at + 4, 1))
  local stored_item = event:add(F.stored, tvb(at + 5, 1))
  local seen_item = event:add(F.seen, tvb(at + 6, 1))
  event:add(F.event_flags, tvb(at + 7, 1)):add(F.event_truncated, tvb(at + 7, 1))
  event:add(F.ns, tvb(at, 5), (timestamp * 256 + fine) * LSB_NS):set_generated()
  if math.floor(timestamp / 256) ~= h.frame then breaks("timestamp_outside_frame", timestamp_item) end
  if stored > SLOTS then breaks("hits_above_32", stored_item) end
  if seen < stored then breaks("seen_below_stored", seen_item) end
  for i = 0, hits and math.min(stored, SLOTS) - 1 or -1 do
    local place = at + EVENT_HEADER + 2 * i
    if place + 2 > limit then break end
    local range = tvb(place, 2)
    local word = range:le_uint()
    local pm, steps = word % 2048, math.floor(word / 2048)
    if steps > 15 then steps = steps - 32 end
    local hit = event:add_le(F.pm, range)
    hit:append_text(hit_times[steps])
    hit:add(F.time, range, 4 * steps)
    if pm >= PMS then
      breaks("pm_out_of_range", hit)
    elseif h.board < BOARDS and math.floor(pm / PMS_PER_BOARD) ~= h.board then
      breaks("pm_of_other_board", hit)
    end
  end
  if size > there then
    breaks("event_past_end", stored_item)
    return nil
  end
  local used = EVENT_HEADER + 2 * math.min(stored, SLOTS)
  if used < size then event:add(F.slots, tvb(at + used, size - used)) end
  return at + size
end

-- Adds all events, as far as needed; returns the first broken rule and its item.
local function add_events(tvb, root, h, size)
  local limit = math.min(h.length, size)
  local sound = events_sound(tvb:raw(), h, limit)
  if sound and not used(root, EVENT_FIELDS) then return nil end
  local hits = not sound or used(root, HIT_FIELDS)
  local broken, at = {}, 16
  for number = 0, h.events - 1 do
    at = add_event(tvb, root, h, number, at, limit, broken, hits)
    if at == nil then return "event_past_end", broken.event_past_end end
  end
  if at < limit then
    return "trailing_bytes", root:add(F.excess, tvb(at, limit - at))
  end
  for _, name in ipairs(event_rules) do
    if broken[name] ~= nil then return name, broken[name] end
  end
  return nil
end

-- Whether a valid packet would start a third burst while two are open.
local function begins_third(h, now, allowed)
  local b = bursts
  local function all(set, more)
    for board in pairs(allowed) do
      if not set[board] and not (more and more[board]) then return false end
    end
    return true
  end
  local function note(done, sob)
    if h.eob then done[h.board] = true end
    if h.sob then sob[h.board] = true end
  end
  if b.old_open and (now >= b.old_closes or all(b.old_done, b.sob)) then b.old_open = false end
  if b.current == nil or h.burst == b.current then
    b.current = h.burst
    note(b.done, b.sob)
    return false
  end
  if h.burst == b.old then
    note(b.old_done, {})
    return false
  end
  local ahead = (h.burst - b.current) % 256
  if ahead > 127 then return false end
  if b.old_open then return true end
  local kept = b.candidates[h.burst]
  if kept == nil then
    b.candidates[h.burst] = { first = now, sob = h.sob and { [h.board] = true } or {} }
    return false
  end
  b.old, b.old_done, b.old_open = b.current, b.done, true
  b.old_closes = kept.first + mgp.prefs.timeout_us / 1e6
  b.current, b.done, b.sob, b.candidates = h.burst, {}, kept.sob, {}
  note(b.done, b.sob)
  return false
end

local fragments_of = Field.new("ip.fragment")

function mgp.dissector(tvb, pinfo, tree)
  if comes_from(ports[1], pinfo) then return 0 end
  local size = tvb:len()
  pinfo.cols.protocol = "MGP"
  pinfo.cols.info = "MGP"
  local root = tree:add(mgp, tvb(), "nanet multi-event GPU packet")
  if fragments_of() ~= nil then root:add_proto_expert_info(mgp_expert.ip_fragment) end
  local whole_packet = size == tvb:reported_len()
  if not whole_packet then root:add_proto_expert_info(mgp_expert.cut_short) end
  if size < 16 then
    if whole_packet then refuse(root, F.refusal, mgp_expert, "short_header", root, pinfo) end
    return
  end

  local flags = tvb(3, 1):uint()
  local h = {
    source = tvb(0, 1):uint(), board = tvb(1, 1):uint(), version = tvb(2, 1):uint(), length = tvb(4, 2):le_uint(),
    events = tvb(6, 1):uint(), index = tvb(7, 1):uint() % 16, encoding = math.floor(tvb(7, 1):uint() / 16),
    sequence = tvb(8, 4):le_uint(), frame = tvb(12, 3):le_uint(), burst = tvb(15, 1):uint(),
    sob = bit_of(flags, 0), eob = bit_of(flags, 1), truncated = bit_of(flags, 2), error = bit_of(flags, 3),
    fixed = bit_of(flags, 4), last = bit_of(flags, 5), padded = bit_of(flags, 6),
  }
  local items = {}
  items.bad_source = root:add(F.source, tvb(0, 1))
  items.bad_board = root:add(F.board, tvb(1, 1))
  items.bad_version = root:add(F.version, tvb(2, 1))
  local flags_item = root:add(F.flags, tvb(3, 1))
  for _, name in ipairs({ "sob", "eob", "truncated", "error", "fixed", "last", "padded" }) do
    flags_item:add(F[name], tvb(3, 1))
  end
  items.sob_eob_with_events = flags_item
  items.length_mismatch = root:add_le(F.length, tvb(4, 2))
  root:add(F.events, tvb(6, 1))
  items.bad_encoding = root:add(F.encoding, tvb(7, 1))
  root:add(F.index, tvb(7, 1))
  root:add_le(F.sequence, tvb(8, 4))
  items.frame_beyond_spill = root:add_le(F.frame, tvb(12, 3))
  items.wrong_burst = root:add(F.burst, tvb(15, 1))
  if h.error then flags_item:add_proto_expert_info(mgp_expert.board_error) end
  if h.truncated then flags_item:add_proto_expert_info(mgp_expert.board_truncated) end

  local from = h.board == MERGED and "Merged stream" or string.format("Board %d", h.board)
  local what = h.sob and ", SOB" or h.eob and ", EOB" or string.format(", packet %d%s, %d event%s", h.index,
    h.last and " (last)" or "", h.events, h.events == 1 and "" or "s")
  pinfo.cols.info = string.format("%s, burst %d, frame %s%s, sequence %s", from, h.burst, whole(h.frame), what,
    whole(h.sequence))

  local allowed = configured_boards()
  if allowed == nil then
    if merged_capture == nil then
      allowed = h.board == MERGED and ONE or FOUR
    else
      allowed = merged_capture and ONE or FOUR
    end
  end
  local refusal = header_refusal(h, size, allowed)
  local item = items[refusal]
  if h.eob and not h.sob then
    if size >= 40 then
      root:add_le(F.eob_frames, tvb(16, 4))
      root:add_le(F.eob_packets, tvb(20, 4))
      root:add_le(F.eob_events, tvb(24, 8))
      root:add_le(F.eob_hits, tvb(32, 8))
    end
  elseif not h.sob then
    local name, place = add_events(tvb, root, h, size)
    if refusal == nil then refusal, item = name, place end
  end
  if refusal == nil and h.frame >= mgp.prefs.max_frames then
    refusal, item = "frame_beyond_spill", items.frame_beyond_spill
  end
  if size > h.length and h.length >= 16 then
    root:add(h.padded and F.padding or F.excess, tvb(h.length, size - h.length))
  end

  if not whole_packet then return end
  if not pinfo.visited and refusal == nil then
    if merged_capture == nil then merged_capture = h.board == MERGED end
    wrong_burst[pinfo.number] = begins_third(h, pinfo.rel_ts, allowed) or nil
  end
  if refusal == nil and wrong_burst[pinfo.number] then refusal, item = "wrong_burst", items.wrong_burst end
  if refusal ~= nil then refuse(root, F.refusal, mgp_expert, refusal, item, pinfo) end
end

function mgp.init()
  forget()
end
forget()

------------------------------------------------------------------------------------------------------------ MTP

local mtp = Proto("mtp", "NA62 multi-trigger packet")

local ring_counts = { [0] = "none", "one", "two", "three or more" }
local sub_names = { [0] = "normal", [255] = "late: answered at the deadline" }
local T = {
  source = ProtoField.uint8("mtp.source", "Source ID", base.HEX, source_names),
  frame = ProtoField.uint24("mtp.frame", "Frame", base.DEC),
  sub = ProtoField.uint8("mtp.sub_id", "Sub ID", base.HEX, sub_names),
  primitives = ProtoField.uint8("mtp.primitives", "Primitive words", base.DEC),
  length = ProtoField.uint16("mtp.length", "Length", base.DEC),
  word_frame = ProtoField.uint24("mtp.word.frame", "Timestamp word: frame", base.DEC),
  id = ProtoField.uint16("mtp.primitive.id", "Primitive ID", base.HEX),
  calibration = ProtoField.bool("mtp.primitive.calibration", "Calibration", 16, nil, 0x8000),
  valid = ProtoField.bool("mtp.primitive.valid", "Valid", 16, nil, 0x4000),
  rings = ProtoField.uint16("mtp.primitive.rings", "Rings", base.DEC, ring_counts, 0x3000),
  saturated = ProtoField.bool("mtp.primitive.saturated", "Leading ring saturated", 16, nil, 0x0800),
  small = ProtoField.bool("mtp.primitive.small", "A small ring", 16, nil, 0x0400),
  multiplicity = ProtoField.bool("mtp.primitive.multiplicity", "Many hits", 16, nil, 0x0200),
  ambiguous = ProtoField.bool("mtp.primitive.ambiguous", "Ambiguous number of rings", 16, nil, 0x0100),
  incomplete = ProtoField.bool("mtp.primitive.incomplete", "Truncated or incomplete", 16, nil, 0x0080),
  chi2 = ProtoField.bool("mtp.primitive.chi2", "Leading ring's chi2/ndf above its cut", 16, nil, 0x0040),
  radius = ProtoField.uint16("mtp.primitive.radius", "Radius code", base.DEC, nil, 0x003F),
  radius_mm = ProtoField.double("mtp.primitive.radius_mm", "Radius (mm)"),
  timestamp = ProtoField.uint8("mtp.primitive.timestamp", "Timestamp 7:0", base.DEC),
  fine = ProtoField.uint8("mtp.primitive.fine", "Fine time", base.DEC),
  time = ProtoField.uint64("mtp.primitive.time", "Time since start of burst (LSB)", base.DEC),
  ns = ProtoField.double("mtp.primitive.ns", "Time since start of burst (ns)"),
  rest = ProtoField.bytes("mtp.excess", "Incomplete word"),
  refusal = ProtoField.string("mtp.refusal", "Refused"),
}
for _, field in pairs(T) do table.insert(mtp.fields, field) end
local WORD_FIELDS = {
  T.word_frame, T.id, T.calibration, T.valid, T.rings, T.saturated, T.small, T.multiplicity, T.ambiguous, T.incomplete,
  T.chi2, T.radius, T.radius_mm, T.timestamp, T.fine, T.time, T.ns, T.rest,
}

local mtp_expert, mtp_experts = experts("mtp", {
  { "short_header", "shorter than 8 bytes" },
  { "bad_source", "unexpected source ID" },
  { "length_mismatch", "length field differs from the datagram, or is no multiple of a word" },
  { "count_mismatch", "number of primitive words differs from the header" },
  { "no_timestamp_word", "the first word is no timestamp word" },
  { "ends_with_timestamp", "ends with a timestamp word" },
  { "not_in_order", "a primitive earlier than the one before it" },
  { "cut_short", "truncated in the capture: not checked", GROUP.UNDECODED, SEVERITY.WARN },
  { "late", "the frame missed its deadline and was answered header-only", GROUP.RESPONSE_CODE, SEVERITY.NOTE },
})
mtp.experts = mtp_experts

mtp.prefs.port = Pref.uint("UDP port", 58914, "Destination of the primitives (trigger.send)")
mtp.prefs.source = Pref.uint("Source ID", 0x1C, "RICH is 28")

local function is_timestamp(tvb, at)
  return tvb(at + 3, 1):uint() == 0
end

local ID_BITS = {
  "calibration", "valid", "rings", "saturated", "small", "multiplicity", "ambiguous", "incomplete", "chi2", "radius",
}

-- Adds one primitive word; returns its time (LSB) and its item.
local function add_primitive(tvb, root, at, frame)
  local fine, timestamp, id = tvb(at, 1):uint(), tvb(at + 1, 1):uint(), tvb(at + 2, 2):le_uint()
  local time = frame * LSB_PER_FRAME + timestamp * 256 + fine
  local rings, code = math.floor(id / 4096) % 4, id % 64
  local item = root:add(mtp, tvb(at, 4), string.format("Primitive: %s%d ring%s%s, %.1f ns", rings == 3 and ">= " or "",
    rings, rings == 1 and "" or "s", rings > 0 and string.format(", R = %.1f mm", 60 + 2.25 * code) or "",
    time * LSB_NS))
  local bits = item:add_le(T.id, tvb(at + 2, 2))
  for _, name in ipairs(ID_BITS) do bits:add_le(T[name], tvb(at + 2, 2)) end
  if rings > 0 then bits:add(T.radius_mm, tvb(at + 2, 1), 60 + 2.25 * code):set_generated() end
  item:add(T.timestamp, tvb(at + 1, 1))
  item:add(T.fine, tvb(at, 1))
  item:add(T.time, tvb(at, 4), UInt64.new(time % 2 ^ 32, math.floor(time / 2 ^ 32))):set_generated()
  item:add(T.ns, tvb(at, 4), time * LSB_NS):set_generated()
  return time, item
end

-- Number of primitive words, and whether one is earlier than the word before it.
local function scan_words(raw, size)
  local counted, of_frame, before, backwards = 0, 0, 0, false
  for at = 9, size - 3, 4 do
    local b0, b1, b2, b3 = byte(raw, at, at + 3)
    if b3 == 0 then
      of_frame = b0 + 256 * b1 + 65536 * b2
    else
      local time = of_frame * LSB_PER_FRAME + 256 * b1 + b0
      if time < before then backwards = true end
      before, counted = time, counted + 1
    end
  end
  return counted, backwards
end

function mtp.dissector(tvb, pinfo, tree)
  if comes_from(ports[2], pinfo) then return 0 end
  local size = tvb:len()
  pinfo.cols.protocol = "MTP"
  pinfo.cols.info = "MTP"
  local root = tree:add(mtp, tvb(), "NA62 multi-trigger packet")
  local whole_packet = size == tvb:reported_len()
  if not whole_packet then root:add_proto_expert_info(mtp_expert.cut_short) end
  if size < 8 then
    if whole_packet then refuse(root, T.refusal, mtp_expert, "short_header", root, pinfo) end
    return
  end

  local source, frame, sub = tvb(3, 1):uint(), tvb(0, 3):le_uint(), tvb(7, 1):uint()
  local primitives, length = tvb(6, 1):uint(), tvb(4, 2):le_uint()
  local items = {}
  items.bad_source = root:add(T.source, tvb(3, 1))
  root:add_le(T.frame, tvb(0, 3))
  local sub_item = root:add(T.sub, tvb(7, 1))
  items.count_mismatch = root:add(T.primitives, tvb(6, 1))
  items.length_mismatch = root:add_le(T.length, tvb(4, 2))
  if sub == 255 then sub_item:add_proto_expert_info(mtp_expert.late) end
  pinfo.cols.info = string.format("Frame %s, %d primitive%s%s", whole(frame), primitives,
    primitives == 1 and "" or "s", sub == 255 and ", late" or "")

  local counted, backwards = scan_words(tvb:raw(), size)
  local refusal, item
  local last_item, backwards_item
  local function add_words()
    local of_frame, before, at = 0, nil, 8
    while at + 4 <= size do
      if is_timestamp(tvb, at) then
        of_frame = tvb(at, 3):le_uint()
        last_item = root:add_le(T.word_frame, tvb(at, 3))
      else
        local time
        time, last_item = add_primitive(tvb, root, at, of_frame)
        if before ~= nil and time < before and backwards_item == nil then backwards_item = last_item end
        before = time
      end
      at = at + 4
    end
    if at < size then root:add(T.rest, tvb(at, size - at)) end
  end
  if source ~= mtp.prefs.source then
    refusal = "bad_source"
  elseif size ~= length or size % 4 ~= 0 then
    refusal = "length_mismatch"
  elseif counted ~= primitives then
    refusal = "count_mismatch"
  elseif size > 8 and not is_timestamp(tvb, 8) then
    refusal = "no_timestamp_word"
  elseif size > 8 and is_timestamp(tvb, size - 4) then
    refusal = "ends_with_timestamp"
  elseif backwards then
    refusal = "not_in_order"
  end
  if refusal ~= nil or used(root, WORD_FIELDS) then add_words() end
  if not whole_packet then return end
  if refusal == "ends_with_timestamp" then item = last_item end
  if refusal == "not_in_order" then item = backwards_item end
  if refusal ~= nil then refuse(root, T.refusal, mtp_expert, refusal, item or items[refusal], pinfo) end
end

------------------------------------------------------------------------------------------------ empty datagrams

-- Wireshark calls no dissector for a datagram without payload; nanet refuses it as short_header.
local empty = Proto("nanet_empty", "nanet: empty datagrams")
local udp_port, udp_length = Field.new("udp.dstport"), Field.new("udp.length")

function empty.dissector(_, pinfo, tree)
  local port, length = udp_port(), udp_length()
  if port == nil or length == nil or length.value ~= 8 then return end
  for number, protocol in ipairs({ { mgp, F.refusal, mgp_expert }, { mtp, T.refusal, mtp_expert } }) do
    if port.value == ports[number] then
      local proto, field, infos = protocol[1], protocol[2], protocol[3]
      pinfo.cols.protocol = proto.name
      pinfo.cols.info = "Empty"
      local root = tree:add(proto, "empty datagram")
      refuse(root, field, infos, "short_header", root, pinfo)
      return
    end
  end
end
register_postdissector(empty)

---------------------------------------------------------------------------------------------------------- ports

local udp = DissectorTable.get("udp.port")
ports[1], ports[2] = mgp.prefs.port, mtp.prefs.port
udp:add(ports[1], mgp)
udp:add(ports[2], mtp)

local function moved(number, proto)
  return function()
    if ports[number] ~= proto.prefs.port then
      udp:remove(ports[number], proto)
      ports[number] = proto.prefs.port
      udp:add(ports[number], proto)
    end
  end
end
mgp.prefs_changed = moved(1, mgp)
mtp.prefs_changed = moved(2, mtp)

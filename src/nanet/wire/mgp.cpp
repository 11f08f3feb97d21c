// SPDX-License-Identifier: Apache-2.0
// MGP: packet encoding and complete validation. A fast path accepts valid packets in a few nanoseconds per
// event; a cold path finds the broken rule.
#include "nanet/wire/mgp.hpp"

#include <algorithm>

namespace nanet::wire::mgp {

namespace {

constexpr std::array<std::string_view, refusal_count + 1> refusal_names = {
    "short_header",
    "bad_version",
    "bad_source",
    "bad_board",
    "bad_encoding",
    "length_mismatch",
    "oversized",
    "sob_eob_with_events",
    "event_past_end",
    "trailing_bytes",
    "timestamp_outside_frame",
    "hits_above_32",
    "seen_below_stored",
    "pm_out_of_range",
    "pm_of_other_board",
    "frame_beyond_spill",
    "wrong_burst",
    "none",
};

// PM IDs allowed in a packet of `board`: first, and last minus first.
struct PmRange {
  std::uint16_t first, span;
};
inline PmRange pm_range(BoardId board, const Rules& rules) {
  const bool known = board < max_boards && rules.first_pm[board] < rules.first_pm[max_boards];
  const std::uint32_t first = known ? rules.first_pm[board] : 0,
                      end = rules.first_pm[known ? board + 1u : max_boards];
  return {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(end - 1 - first)};
}
// PM IDs have these bits of a hit word.
inline std::uint16_t pm_mask(const Rules& rules) {
  return rules.encoding == wide_hit_encoding ? 0xFFFF : 0x7FF;
}

inline bool board_allowed(BoardId board, const Rules& rules) {
  return rules.boards == 0 ? board == merged_board
                           : board < max_boards && ((rules.boards >> board) & 1u) != 0 &&
                                 rules.first_pm[board] < rules.first_pm[max_boards];
}

// Set of broken rules; the lowest bit is reported.
class Broken {
 public:
  void add(Refusal refusal, bool applies) {
    bits_ |= static_cast<std::uint32_t>(applies) << static_cast<unsigned>(refusal);
  }
  bool any() const { return bits_ != 0; }
  Refusal first() const { return any() ? static_cast<Refusal>(__builtin_ctz(bits_)) : Refusal::none; }

 private:
  std::uint32_t bits_ = 0;
};

// Rules for single hits, one event at a time.
void check_hits(Broken& broken, const std::byte* hits, unsigned stored, BoardId board, const Rules& rules) {
  const PmRange range = pm_range(board, rules);
  for (unsigned i = 0; i < stored; ++i) {
    const unsigned pm = load<std::uint16_t>(hits + 2 * i) & pm_mask(rules);
    broken.add(Refusal::pm_out_of_range, pm >= rules.first_pm[max_boards]);
    broken.add(Refusal::pm_of_other_board, pm - range.first > range.span);
  }
}

// Parses all events as docs/formats.md specifies and returns the first broken rule.
[[gnu::cold, gnu::noinline]] Refusal find_refusal(std::span<const std::byte> datagram, const Rules& rules,
                                                  const Header& h) noexcept {
  const bool sob = h.has(flag::sob);
  const bool eob = h.has(flag::eob);
  Broken broken;
  broken.add(Refusal::bad_version, h.version != version);
  broken.add(Refusal::bad_source, h.source != rules.source);
  broken.add(Refusal::bad_board, !board_allowed(h.board, rules));
  broken.add(Refusal::bad_encoding, h.encoding != rules.encoding);
  broken.add(Refusal::length_mismatch, h.length < header_bytes || datagram.size() < h.length ||
                                           (datagram.size() > h.length && !h.has(flag::padded)) ||
                                           (sob && !eob && h.length != header_bytes) ||
                                           (eob && !sob && h.length != eob_bytes));
  broken.add(Refusal::oversized, datagram.size() > rules.max_payload);
  broken.add(Refusal::sob_eob_with_events,
             (sob || eob) && ((sob && eob) || h.events != 0 || h.has(flag::last)));
  if (broken.any()) return broken.first();  // later rules concern events

  broken.add(Refusal::frame_beyond_spill, h.frame >= rules.max_frames);
  if (sob || eob) return broken.first();

  const std::size_t end = h.length;
  std::size_t at = header_bytes;
  for (unsigned event = 0; event < h.events; ++event) {
    if (end - at < event_header_bytes) return Refusal::event_past_end;
    const std::byte* p = datagram.data() + at;
    const auto stored = static_cast<unsigned>(p[5]);
    const auto seen = static_cast<unsigned>(p[6]);
    const std::size_t bytes = h.has(flag::fixed) ? fixed_event_bytes : event_header_bytes + 2 * stored;
    if (end - at < bytes) return Refusal::event_past_end;
    broken.add(Refusal::timestamp_outside_frame, load<std::uint32_t>(p) >> 8 != h.frame);
    broken.add(Refusal::hits_above_32, stored > max_fragment_hits);
    broken.add(Refusal::seen_below_stored, seen < stored);
    check_hits(broken, p + event_header_bytes, std::min(stored, max_fragment_hits), h.board, rules);
    at += bytes;
  }
  broken.add(Refusal::trailing_bytes, at != end);
  return broken.first();
}

// Sixteen hit words at a time (one or two vector registers, depending on the machine).
constexpr unsigned lanes = 16;
constexpr std::size_t lane_bytes = 2 * lanes;
using Words = std::uint16_t __attribute__((vector_size(lane_bytes)));

// Sixteen words at [32 - n] have their first n lanes set (all lanes for n >= 16).
struct Ramp {
  std::uint16_t words[2 * max_fragment_hits];
};
constexpr Ramp make_ramp() {
  Ramp ramp{};
  for (unsigned i = 0; i < max_fragment_hits; ++i) ramp.words[i] = 0xFFFF;
  return ramp;
}
alignas(64) constexpr Ramp ramp = make_ramp();

inline void load_words(Words& words, const void* at) {
  memcpy(&words, at, sizeof words);
}

// Accumulates rule violations over all events. Reads 72 bytes of each event, whatever its size.
class Checker {
 public:
  Checker(const Header& h, const Rules& rules)
      : frame_time_(h.frame << 8),
        range_(pm_range(h.board, rules)),
        first_pm_(Words{} + range_.first),
        pm_mask_(Words{} + pm_mask(rules)) {}

  // Returns false if a count is wrong. Valid traffic never takes this branch, so it is predicted.
  bool event(const std::byte* at, std::size_t stored) {
    const auto word = load<std::uint64_t>(at);
    if (stored > max_fragment_hits || static_cast<std::uint8_t>(word >> 48) < stored) return false;
    time_difference_ |= static_cast<std::uint32_t>(word) ^ frame_time_;
    hits_missing_ |= static_cast<std::uint32_t>(word >> 48) ^ static_cast<std::uint32_t>(stored);
    const std::uint16_t* mask = ramp.words + max_fragment_hits - stored;
    hits(at + event_header_bytes, mask);
    if (stored > lanes) hits(at + event_header_bytes + lane_bytes, mask + lanes);
    return true;
  }

  // A fragment is marked as truncated, or has fewer hits than the board saw.
  bool truncated() const { return (hits_missing_ & 0x1FF) != 0; }
  bool sound() const {
    const auto above = worst_ > range_.span;
    std::uint64_t any[lane_bytes / 8];
    memcpy(any, &above, sizeof any);
    return time_difference_ >> 8 == 0 && (any[0] | any[1] | any[2] | any[3]) == 0;
  }

 private:
  void hits(const std::byte* at, const std::uint16_t* mask) {
    Words value, wanted;
    load_words(value, at);
    load_words(wanted, mask);
    value = ((value & pm_mask_) - first_pm_) & wanted;
    worst_ = value > worst_ ? value : worst_;
  }

  Timestamp frame_time_;
  PmRange range_;
  Words first_pm_, pm_mask_;
  Words worst_{};  // per lane: maximum PM ID minus the board's first; out of range on either side is large
  std::uint32_t time_difference_ = 0;
  std::uint32_t hits_missing_ = 0;  // of any event: b7:0 hits seen and not stored, b8 flag
};

bool fixed_events_sound(const std::byte* datagram, const Header& h, const Rules& rules, std::uint32_t& hits) {
  if (h.length != header_bytes + h.events * fixed_event_bytes) return false;
  Checker checker(h, rules);
  const std::byte* at = datagram + header_bytes;
  std::size_t stored_sum = 0;
  for (unsigned event = 0; event < h.events; ++event, at += fixed_event_bytes) {
    const std::size_t stored = static_cast<std::uint8_t>(at[5]);
    if (!checker.event(at, stored)) return false;
    stored_sum += stored;
  }
  hits = static_cast<std::uint32_t>(stored_sum);
  return checker.sound();
}

// Lists of fragments (Checked::index).
struct NoList {
  void operator()(const std::byte*, std::ptrdiff_t) {}
};
struct List {
  std::uint32_t* next;
  void operator()(const std::byte* event, std::ptrdiff_t offset) {
    *next++ = static_cast<std::uint32_t>(event[0]) << 24 | static_cast<std::uint32_t>(event[4]) << 16 |
              static_cast<std::uint16_t>(offset);
  }
};

template <class ListOf>
bool packed_events_sound(const std::byte* datagram, const Rules& rules, Checked& checked, ListOf list) {
  const Header& h = checked.header;
  // The last bytes are parsed in a padded copy, so that whole vectors can be loaded. The copy is made first,
  // so that it is cached when parsing reaches it.
  const std::byte* const end = datagram + h.length;
  const std::size_t tail_bytes = std::min<std::size_t>(fixed_event_bytes, h.length - header_bytes);
  std::byte tail[2 * fixed_event_bytes] = {};
  if (tail_bytes == fixed_event_bytes)  // of fixed size: vector moves instead of a string instruction
    memcpy(tail, end - fixed_event_bytes, fixed_event_bytes);
  else
    memcpy(tail, end - tail_bytes, tail_bytes);

  Checker checker(h, rules);
  const std::byte* at = datagram + header_bytes;
  unsigned left = h.events;
  for (; left > 0 && end - at >= static_cast<std::ptrdiff_t>(fixed_event_bytes); --left) {
    const std::size_t stored = static_cast<std::uint8_t>(at[5]);
    if (!checker.event(at, stored)) return false;
    list(at, at - datagram);
    at += event_header_bytes + 2 * stored;
  }
  if (static_cast<std::size_t>(end - at) > tail_bytes) return false;  // events end too early
  const std::byte* const tail_end = tail + tail_bytes;
  at = tail_end - (end - at);
  for (; left > 0; --left) {
    if (tail_end - at < static_cast<std::ptrdiff_t>(event_header_bytes)) return false;
    const std::size_t stored = static_cast<std::uint8_t>(at[5]);
    if (!checker.event(at, stored)) return false;
    list(at, h.length - (tail_end - at));
    at += event_header_bytes + 2 * stored;
    if (at > tail_end) return false;
  }
  checked.hits = static_cast<std::uint32_t>((h.length - header_bytes - h.events * event_header_bytes) / 2);
  checked.truncated = checker.truncated();
  return at == tail_end && checker.sound();
}

}  // namespace

std::string_view name(Refusal refusal) {
  return refusal_names[std::min(static_cast<std::size_t>(refusal), refusal_count)];
}

void encode_header(std::byte* at, const Header& h) {
  store<std::uint64_t>(at, h.source | std::uint64_t{h.board} << 8 | std::uint64_t{h.version} << 16 |
                               std::uint64_t{h.flags} << 24 | std::uint64_t{h.length} << 32 |
                               std::uint64_t{h.events} << 48 | std::uint64_t{h.index & 0xFu} << 56 |
                               std::uint64_t{h.encoding & 0xFu} << 60);
  store<std::uint32_t>(at + 8, h.sequence);
  store<std::uint32_t>(at + 12, (h.frame & 0xFFFFFF) | std::uint32_t{h.burst} << 24);
}

EobCounts decode_eob(const std::byte* datagram) {
  return {load<std::uint32_t>(datagram + 16), load<std::uint32_t>(datagram + 20),
          load<std::uint64_t>(datagram + 24), load<std::uint64_t>(datagram + 32)};
}

void encode_eob(std::byte* datagram, const EobCounts& counts) {
  store(datagram + 16, counts.frames);
  store(datagram + 20, counts.packets);
  store(datagram + 24, counts.events);
  store(datagram + 32, counts.hits);
}

namespace {

inline bool events_sound(const std::byte* datagram, const Rules& rules, Checked& checked,
                         std::span<std::uint32_t> room) {
  const Header& h = checked.header;
  if (h.has(flag::fixed)) return fixed_events_sound(datagram, h, rules, checked.hits);
  if (room.size() < h.events || room.empty()) return packed_events_sound(datagram, rules, checked, NoList{});
  if (!packed_events_sound(datagram, rules, checked, List{room.data()})) return false;
  checked.index = room.data();
  return true;
}

}  // namespace

Checked validate(std::span<const std::byte> datagram, const Rules& rules) noexcept {
  return validate(datagram, rules, {});
}

Checked validate(std::span<const std::byte> datagram, const Rules& rules,
                 std::span<std::uint32_t> room) noexcept {
  Checked checked;
  if (datagram.size() < header_bytes) {
    checked.refusal = Refusal::short_header;
    return checked;
  }
  checked.header = decode_header(datagram.data());
  const Header& h = checked.header;
  const bool length_fits = datagram.size() == h.length || (datagram.size() > h.length && h.has(flag::padded));
  const bool plain = h.length >= header_bytes && (h.version == version) && (h.source == rules.source) &&
                     (h.encoding == rules.encoding) && length_fits &&
                     (datagram.size() <= rules.max_payload) && !h.has(flag::sob | flag::eob) &&
                     (h.frame < rules.max_frames) && board_allowed(h.board, rules);
  if (plain && events_sound(datagram.data(), rules, checked, room)) {
    checked.fragments = h.events;
    return checked;
  }
  checked.hits = 0;
  checked.refusal = find_refusal(datagram, rules, h);
  return checked;
}

PacketWriter::PacketWriter(std::byte* buffer, std::size_t limit, const Header& header)
    : buffer_(buffer), limit_(std::min<std::size_t>(limit, 0xFFFF)), header_(header) {
  header_.events = 0;
}

bool PacketWriter::add(Timestamp timestamp, FineTime fine, std::span<const std::uint16_t> hits,
                       std::uint8_t seen, std::uint8_t flags) {
  const bool fixed = header_.has(flag::fixed);
  const std::size_t bytes = fixed ? fixed_event_bytes : event_header_bytes + 2 * hits.size();
  if (hits.size() > max_fragment_hits || header_.events == max_fragments || used_ + bytes > limit_)
    return false;
  std::byte* at = buffer_ + used_;
  store<std::uint64_t>(at, timestamp | std::uint64_t{fine} << 32 | std::uint64_t{hits.size()} << 40 |
                               std::uint64_t{seen} << 48 | std::uint64_t{flags} << 56);
  if (!hits.empty()) memcpy(at + event_header_bytes, hits.data(), hits.size_bytes());
  if (fixed) memset(at + event_header_bytes + hits.size_bytes(), 0xFF, 2 * (max_fragment_hits - hits.size()));
  used_ += bytes;
  ++header_.events;
  return true;
}

std::size_t PacketWriter::finish(std::uint8_t extra) {
  Header final = header_;
  final.flags = static_cast<std::uint8_t>(final.flags | extra);
  final.length = static_cast<std::uint16_t>(used_);
  encode_header(buffer_, final);
  return used_;
}

}  // namespace nanet::wire::mgp

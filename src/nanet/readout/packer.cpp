// SPDX-License-Identifier: Apache-2.0
// Packer of physics events into MGP packets: fragments, frame assignment and encoding.
#include "nanet/readout/packer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace nanet::readout {
namespace {

namespace mgp = wire::mgp;

// One board's part of an event, ready for storage.
struct Fragment {
  Lsb time = 0;
  std::uint8_t stored = 0, seen = 0;
  std::array<std::uint16_t, max_fragment_hits> words;
};

// One PM of an event, as seen by its board.
struct Hit {
  PmId pm;
  double lsb;
};

// hits: of one board, by PM ID. The fragment time is the mean of the stored hit times, rounded, and not
// before the SOB.
void make_fragment(Fragment& fragment, const Hit* hits, unsigned count, bool wide) {
  const unsigned stored = std::min(count, static_cast<unsigned>(max_fragment_hits));
  double sum = 0;
  for (unsigned i = 0; i < stored; ++i) sum += hits[i].lsb;
  const double time = std::max(0.0, std::floor(sum / stored + 0.5));
  fragment.time = static_cast<Lsb>(time);
  fragment.stored = static_cast<std::uint8_t>(stored);
  fragment.seen = static_cast<std::uint8_t>(std::min(count, 255u));
  for (unsigned i = 0; wide && i < stored; ++i) fragment.words[i] = hits[i].pm;
  for (unsigned i = 0; !wide && i < stored; ++i) {
    const double quarter = std::floor((hits[i].lsb - time) * 0.25 + 0.5);
    fragment.words[i] =
        mgp::hit_word(hits[i].pm, static_cast<std::int32_t>(std::clamp(quarter, -16.0, 15.0)));
  }
}

}  // namespace

void stamp(std::byte* datagram, Frame frame, Sequence sequence, std::uint8_t burst) noexcept {
  const auto flags = static_cast<std::uint8_t>(datagram[3]);
  const auto events = static_cast<std::uint8_t>(datagram[6]);
  mgp::store<std::uint32_t>(datagram + 8, sequence);
  mgp::store<std::uint32_t>(datagram + 12, (frame & 0xFFFFFF) | std::uint32_t{burst} << 24);
  std::byte* at = datagram + mgp::header_bytes;
  for (unsigned i = 0; i < events; ++i) {
    const auto word = mgp::load<std::uint64_t>(at);
    mgp::store<std::uint32_t>(at, static_cast<std::uint32_t>(word & 0xFF) | frame << 8);
    at += (flags & mgp::flag::fixed) ? mgp::fixed_event_bytes
                                     : mgp::event_header_bytes + 2 * static_cast<std::uint8_t>(word >> 40);
  }
}

std::size_t make_sob(std::byte* datagram, BoardId board, std::uint8_t burst, std::uint8_t encoding) noexcept {
  mgp::Header header;
  header.board = board;
  header.encoding = encoding;
  header.flags = mgp::flag::sob;
  header.length = mgp::header_bytes;
  header.burst = burst;
  mgp::encode_header(datagram, header);
  return mgp::header_bytes;
}

std::size_t make_eob(std::byte* datagram, BoardId board, std::uint8_t burst, Frame last_frame,
                     Sequence sequence, const mgp::EobCounts& counts, std::uint8_t encoding) noexcept {
  mgp::Header header;
  header.board = board;
  header.encoding = encoding;
  header.flags = mgp::flag::eob;
  header.length = mgp::eob_bytes;
  header.sequence = sequence;
  header.frame = last_frame;
  header.burst = burst;
  mgp::encode_header(datagram, header);
  mgp::encode_eob(datagram, counts);
  return mgp::eob_bytes;
}

struct FrameSource::State {
  State(const rich::GeneratorOptions& g, const PackOptions& p, std::uint64_t events)
      : pack(p),
        max_events(events),
        detector(g.detector),
        generator(g, *g.detector),
        encoding(encoding_of(g)) {
    // Maximum lead of a fragment over its event: board offset plus ten sigma of the hit time.
    margin_ns = g.board_offset_ns + 10 * g.hit_sigma_ns + 1;
    flags = static_cast<std::uint8_t>((p.fixed ? mgp::flag::fixed : 0) | (p.pad ? mgp::flag::padded : 0));
  }

  unsigned boards() const { return pack.merged ? 1 : detector->boards(); }

  // Splits one event into fragments.
  void take(const rich::TrueEvent& event) {
    hits.clear();
    for (const rich::TrueHit& hit : event.hits) {
      const double lsb = hit.time_ns * (1.0 / lsb_ns);
      if (!hits.empty() &&
          hits.back().pm == hit.pm) {  // one PM, several owners: one hit at the earliest time
        hits.back().lsb = std::min(hits.back().lsb, lsb);
      } else {
        hits.push_back({hit.pm, lsb});
      }
    }
    unsigned from = 0;
    const auto size = static_cast<unsigned>(hits.size());
    while (from < size) {
      unsigned to = size, board = 0;
      if (!pack.merged) {
        board = detector->board_of(hits[from].pm);
        const std::uint32_t end = detector->first_of_board[board + 1];
        for (to = from + 1; to < size && hits[to].pm < end;) ++to;
      }
      make_fragment(waiting[board].emplace_back(), hits.data() + from, to - from, detector->wide());
      from = to;
    }
  }

  // Takes events until all fragments of frames before `end` (ns) are available.
  void fill(double end_ns) {
    while (generated < max_events && (ahead.empty() || ahead.back().time_ns < end_ns + margin_ns)) {
      if (spare.empty()) spare.emplace_back();
      ahead.push_back(std::move(spare.back()));
      spare.pop_back();
      generator.next(ahead.back());
      take(ahead.back());
      ++generated;
    }
  }

  // Writes the packets of one board for the frame, from its fragments in time order.
  void write_board(PackedFrame& out, unsigned board, const std::vector<Fragment>& fragments) {
    mgp::Header header;
    header.board = pack.merged ? merged_board : static_cast<BoardId>(board);
    header.flags = flags;
    header.encoding = encoding;
    header.frame = out.frame & 0xFFFFFF;
    const std::size_t first_packet = out.packets.size();
    const auto timestamp = [&](Lsb time) {
      return static_cast<Timestamp>((header.frame << 8) | ((time >> 8) & 0xFF));
    };
    std::size_t at = 0;
    bool truncated = false;
    for (;;) {
      const auto offset = static_cast<std::uint32_t>(out.bytes.size());
      out.bytes.resize(offset + pack.max_payload);
      mgp::PacketWriter writer(out.bytes.data() + offset, pack.max_payload, header);
      for (; at < fragments.size(); ++at) {
        const Fragment& f = fragments[at];
        if (!writer.add(timestamp(f.time), static_cast<FineTime>(f.time & 0xFF), {f.words.data(), f.stored},
                        f.seen, f.seen > f.stored)) {
          break;
        }
        ++out.fragments[board];
        out.hits[board] += f.stored;
      }
      const bool full = header.index == mgp::max_packets_per_frame - 1;
      truncated = full && at < fragments.size();
      const bool last = at == fragments.size() || full;
      std::size_t size = writer.finish(last ? mgp::flag::last : 0);
      if (pack.pad) size = pack.max_payload;  // resize() has zeroed the rest
      out.bytes.resize(offset + size);
      out.packets.push_back({header.board, offset, static_cast<std::uint16_t>(size)});
      if (last) break;
      ++header.index;
    }
    if (!truncated) return;
    for (std::size_t i = first_packet; i < out.packets.size(); ++i) {
      out.bytes[out.packets[i].offset + 3] |= static_cast<std::byte>(mgp::flag::truncated);
    }
  }

  // Moves the fragments of `wanted` from waiting[board] to `due`, in time order.
  void pick(unsigned board, Frame wanted) {
    due.clear();
    std::vector<Fragment>& all = waiting[board];
    std::size_t kept = 0;
    const Lsb end = (static_cast<Lsb>(wanted) + 1) * lsb_per_frame;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].time < end) {
        due.push_back(all[i]);
      } else {
        if (kept != i) all[kept] = all[i];
        ++kept;
      }
    }
    all.resize(kept);
    // Insertion sort: the events are nearly in order.
    for (std::size_t i = 1; i < due.size(); ++i) {
      if (due[i - 1].time <= due[i].time) continue;
      const Fragment late = due[i];
      std::size_t k = i;
      for (; k > 0 && due[k - 1].time > late.time; --k) due[k] = due[k - 1];
      due[k] = late;
    }
  }

  PackOptions pack;
  std::uint64_t max_events, generated = 0;
  std::shared_ptr<const rich::Geometry> detector;
  rich::Generator generator;
  std::uint8_t encoding;
  double margin_ns;
  std::uint8_t flags;
  Frame frame = 0;
  std::array<std::vector<Fragment>, max_boards> waiting;
  std::vector<Fragment> due;
  std::vector<Hit> hits;
  std::vector<rich::TrueEvent> current, ahead,
      spare;  // of this frame; of later frames; used ones, kept for their memory
};

FrameSource::FrameSource(const rich::GeneratorOptions& generator, const PackOptions& pack,
                         std::uint64_t max_events)
    : state_(new State(generator, pack, max_events)) {}
FrameSource::~FrameSource() {
  delete state_;
}

void FrameSource::next(PackedFrame& out) {
  State& s = *state_;
  out.frame = s.frame;
  out.packets.clear();
  out.bytes.clear();
  out.truth.clear();
  std::fill(std::begin(out.fragments), std::end(out.fragments), 0);
  std::fill(std::begin(out.hits), std::end(out.hits), 0);

  const double end_ns = (static_cast<double>(s.frame) + 1) * frame_ns;
  s.fill(end_ns);
  for (rich::TrueEvent& event : s.current) s.spare.push_back(std::move(event));
  s.current.clear();
  std::size_t taken = 0;
  for (; taken < s.ahead.size() && s.ahead[taken].time_ns < end_ns; ++taken) {
    out.truth.push_back(static_cast<std::uint32_t>(taken));
    s.current.push_back(std::move(s.ahead[taken]));
  }
  s.ahead.erase(s.ahead.begin(), s.ahead.begin() + static_cast<std::ptrdiff_t>(taken));

  for (unsigned board = 0; board < s.boards(); ++board) {
    s.pick(board, s.frame);
    s.write_board(out, board, s.due);
  }
  ++s.frame;
}

const std::vector<rich::TrueEvent>& FrameSource::events() const {
  return state_->current;
}

bool FrameSource::done() const {
  const State& s = *state_;
  return s.generated == s.max_events && s.ahead.empty() &&
         std::all_of(s.waiting.begin(), s.waiting.end(), [](const auto& waiting) { return waiting.empty(); });
}

}  // namespace nanet::readout

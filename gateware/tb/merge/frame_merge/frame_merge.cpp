// SPDX-License-Identifier: SHL-2.1
// Harness of frame_merge and clop_close: random frames, many open at a time, against the frame merger of the
// software card, byte for byte. Arguments: frames, mode, limit of the mean cycles from notification to event
// (0: none), seed. Modes: 0 ordinary, 1 hostile (disorder, overflow, refused packets, full memory, pauses),
// 2 the standard mix at 10 MHz, 3 at 20 MHz.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <list>
#include <vector>

#include "harness.hpp"
#include "nanet/card/software/frame_merger.cpp"

namespace {

namespace contract = nanet::contract;
namespace mgp = nanet::wire::mgp;

constexpr std::uint64_t base = 0x10'0000'0000;
constexpr unsigned buffers = 48;

enum Mode { ordinary, hostile, mix_10, mix_20 };

struct Piece {
  unsigned board;
  std::size_t at;  // in the segment
  std::vector<std::byte> bytes;
};

struct Frame {
  std::vector<std::byte> buffer;  // as a card without merging writes it
  contract::FrameHeader header;
  std::deque<Piece> pieces;
  unsigned index = 0, number = 0, written = 0;  // words
  bool asked = false;
  std::uint64_t noticed = 0;
  std::uint32_t begun = 0, announced = 0;  // TTC time of the first word, of the notification
};

struct Traffic {
  std::mt19937_64& random;
  Mode mode;
  unsigned below(unsigned n) { return static_cast<unsigned>(random() % n); }
  bool chance(unsigned one_in) { return below(one_in) == 0; }

  void write(Frame& frame, unsigned board, std::size_t at, const std::vector<std::byte>& bytes, bool counts) {
    for (std::size_t from = 0; from < bytes.size();) {
      const std::size_t end = std::min(bytes.size(), (at + from) / 256 * 256 + 256 - at);
      frame.pieces.push_back(
          {board,
           at + from,
           {bytes.begin() + static_cast<long>(from), bytes.begin() + static_cast<long>(end)}});
      from = end;
    }
    if (counts) std::copy(bytes.begin(), bytes.end(), frame.buffer.data() + 64 + board * 8192 + at);
  }

  struct Part {
    std::uint16_t time;
    std::vector<std::uint16_t> words;
  };

  std::vector<std::byte> packet(unsigned board, unsigned sequence, const std::vector<Part>& parts,
                                bool fixed) {
    std::vector<std::byte> out(16);
    for (const Part& part : parts) {
      const std::size_t at = out.size();
      out.resize(at + (fixed ? 72 : 8 + 2 * part.words.size()), std::byte{0xFF});
      mgp::store<std::uint32_t>(&out[at], 77u << 8 | part.time >> 8);
      out[at + 4] = std::byte(part.time & 0xFF);
      out[at + 5] = std::byte(part.words.size());
      out[at + 6] = std::byte(part.words.size() + (mode == hostile && chance(20)));
      out[at + 7] = std::byte(mode == hostile && chance(20));
      if (!part.words.empty()) std::memcpy(&out[at + 8], part.words.data(), 2 * part.words.size());
    }
    out[0] = std::byte{0x1C};
    out[1] = std::byte(board);
    out[2] = std::byte{1};
    out[3] = std::byte(fixed ? 0x10 : 0);
    mgp::store<std::uint16_t>(&out[4], static_cast<std::uint16_t>(out.size()));
    out[6] = std::byte(parts.size());
    mgp::store<std::uint32_t>(&out[8], sequence);
    return out;
  }

  // Fragments of the four boards.
  std::array<std::vector<Part>, 4> fragments(bool& large) {
    std::array<std::vector<Part>, 4> boards;
    const unsigned rate = mode == mix_20 ? 127 : mode == mix_10 ? 63 : below(90);
    unsigned events = rate;
    if (mode == mix_10 || mode == mix_20) {
      std::poisson_distribution<unsigned> of(rate);
      events = of(random);
    }
    for (unsigned e = 0; e < events; ++e) {
      const unsigned time = mode == hostile && chance(3) ? 30000 + below(200) : below(65400);
      // 20 hits in the mean, between boards as the rings fall.
      std::poisson_distribution<unsigned> hits(chance(7) ? 38. : 17.5);
      std::array<unsigned, 4> share{};
      for (unsigned h = hits(random); h > 0; --h) ++share[below(4)];
      for (unsigned b = 0; b < 4; ++b) {
        if (share[b] == 0 && !(mode == hostile && chance(8))) continue;
        Part part{static_cast<std::uint16_t>(time + below(chance(50) ? 120 : 30)), {}};
        const unsigned n = std::min(share[b], 32u);
        unsigned pm = 512 * b + below(40);
        for (unsigned i = 0; i < n; ++i, pm += 1 + below(12))
          part.words.push_back(static_cast<std::uint16_t>((pm & 0x7FF) | below(32) << 11));
        if (mode == hostile && chance(12) && n > 1) std::swap(part.words[below(n)], part.words[below(n)]);
        boards[b].push_back(part);
      }
    }
    large = mode == hostile && chance(12);
    if (large)  // more hits, or more events, than merged buffers hold
      for (unsigned b = 0; b < 4; ++b) {
        boards[b].clear();
        const bool full = chance(2);
        for (unsigned i = 0; i < (full ? 100u + below(12) : 500 + below(400)); ++i)
          boards[b].push_back(
              {static_cast<std::uint16_t>(below(65400)),
               std::vector<std::uint16_t>(full ? 32 : 0, static_cast<std::uint16_t>(random()))});
      }
    for (auto& board : boards)
      std::stable_sort(board.begin(), board.end(),
                       [](const Part& a, const Part& b) { return a.time < b.time; });
    return boards;
  }

  Frame frame(unsigned number) {
    Frame f;
    f.number = number;
    f.index = number % buffers;
    f.buffer.resize(64 + 4 * 8192 + contract::tail_bytes);
    bool large = false;
    auto boards = fragments(large);
    std::array<std::deque<Piece>, 4> lanes;
    f.header.frame = number & 0xFFFFFF;
    f.header.expected = f.header.complete = 0xF;
    for (unsigned b = 0; b < 4; ++b) {
      if (mode != mix_10 && mode != mix_20 && chance(15)) {
        f.header.complete = static_cast<std::uint8_t>(f.header.complete & ~(1u << b));
        if (chance(2)) continue;
      }
      if (mode == hostile && chance(30) && boards[b].size() > 3) std::swap(boards[b][1], boards[b][2]);
      const bool fixed = mode == hostile && chance(6);
      std::size_t end = 0;
      unsigned sequence = 1000 + below(50), packets = 0;
      std::size_t from = 0;
      do {
        std::size_t count = 0, bytes = 16;
        const std::size_t limit = mode == hostile && !large ? 48 + below(1425) : 1472;
        while (from + count < boards[b].size() && count < 255) {
          const std::size_t more = fixed ? 72 : 8 + 2 * boards[b][from + count].words.size();
          if (bytes + more > std::max<std::size_t>(limit, 100)) break;
          bytes += more;
          ++count;
        }
        const auto first = boards[b].begin() + static_cast<long>(from);
        const auto p = packet(b, sequence, {first, first + static_cast<long>(count)}, fixed);
        if (end + (p.size() + 15) / 16 * 16 > 8192 || packets == 16) break;
        if (mode == hostile && !large && chance(8)) {  // a refused packet, whose place the next one takes
          std::vector<std::byte> refused(16 + below(1400));
          for (auto& x : refused) x = std::byte(random());
          refused.resize(std::min(refused.size(), 8192 - end));
          write(f, b, end, refused, false);
        }
        write(f, b, end, p, true);
        end += (p.size() + 15) / 16 * 16;
        sequence += mode == hostile && chance(20) ? static_cast<unsigned>(-3) : 1;
        ++packets;
        from += count;
      } while (from < boards[b].size());
      f.header.board[b] = {static_cast<std::uint16_t>(end), static_cast<std::uint8_t>(packets),
                           static_cast<std::uint8_t>(random() & ~4u)};
      lanes[b].swap(f.pieces);
    }
    while (std::any_of(lanes.begin(), lanes.end(), [](const auto& l) { return !l.empty(); })) {
      auto& lane = lanes[below(4)];
      if (lane.empty()) continue;
      f.pieces.push_back(lane.front());
      lane.pop_front();
    }
    const unsigned missing = 0xFu & ~f.header.complete;
    f.header.flags = static_cast<std::uint16_t>((missing ? 0 : 1) | missing << 8);
    return f;
  }
};

}  // namespace

int main(int argc, char** argv) {
  const auto wanted = bench::argument(argc, argv, 1);
  const auto mode = static_cast<Mode>(bench::argument(argc, argv, 2));
  const auto limit = bench::argument(argc, argv, 3);
  std::mt19937_64 random{bench::argument(argc, argv, 4)};
  bench::Dut dut(argc, argv);
  const unsigned window = 41;
  contract::Shape shape;
  nanet::card::FrameMerger reference(shape, window);
  Traffic traffic{random, mode};
  const bool timed = mode == mix_10 || mode == mix_20;

  const auto period = [&] { return static_cast<std::uint32_t>(0xFFFF'FF00 + dut.cycles() / 4); };
  dut->on = 1;
  dut->ttc = 3;
  dut->window = window;
  dut->s_valid = dut->notice_valid = dut->m_ready = dut->m_done = dut->ev_ready = 0;
  dut->fence = dut->done = 0;
  dut.reset();
  while (!dut->ready) dut.cycle();

  std::vector<std::byte> memory(buffers * 513 * 64 + 64);
  std::list<Frame> open;  // their addresses stay
  std::deque<Frame> closing;
  std::deque<std::pair<std::uint64_t, unsigned>> completions;  // cycle, tag
  unsigned number = 0, finished = 0, whole = 0, rooms = 0;
  std::array<unsigned, 5> reasons{};
  std::uint64_t pieces_written = 0, pieces_done = 0;
  std::vector<std::uint64_t> cycles;
  // The piece in transfer, and the write to memory.
  Frame* source = nullptr;
  std::size_t word = 0;
  std::uint64_t to = 0, at = 0, next_frame = 0, quiet = 0;
  bool writing = false;

  while (finished < wanted) {
    // Frames arrive one after the other when timed, else some at a time.
    const unsigned most_open = timed ? 2 : mode == hostile ? 7 : 6;
    unsigned oldest = number;
    for (const Frame& f : open) oldest = std::min(oldest, f.number);
    for (const Frame& f : closing) oldest = std::min(oldest, f.number);
    if (number < wanted && open.size() < most_open && closing.size() < 6 && number + 1 < oldest + buffers &&
        (!timed || dut.cycles() >= next_frame)) {
      open.push_back(traffic.frame(number++));
      if (timed) next_frame = std::max<std::uint64_t>(next_frame, dut.cycles()) + 998;
    }
    // Channels: one piece at a time, from any open frame.
    if (!source && (timed || random() % 4)) {
      std::vector<Frame*> ready;
      for (Frame& f : open)
        if (!f.pieces.empty()) ready.push_back(&f);
      if (!ready.empty()) source = ready[timed ? 0 : random() % ready.size()], word = 0;
    }
    dut->s_valid = source && (timed || random() % 8 != 0 || dut->s_valid);
    if (source) {
      const Piece& p = source->pieces.front();
      dut->s_place = source->index << 16 | p.board << 13 | static_cast<unsigned>(p.at);
      dut->s_len = static_cast<unsigned>(p.bytes.size());
      dut->s_last = 32 * (word + 1) >= p.bytes.size();
      std::array<std::uint32_t, 8> data{};
      std::memcpy(data.data(), p.bytes.data() + 32 * word,
                  std::min<std::size_t>(32, p.bytes.size() - 32 * word));
      for (unsigned i = 0; i < 8; ++i) dut->s_data[i] = data[i];
    }
    // A frame whose writes are all done is announced.
    for (auto f = open.begin(); f != open.end(); ++f) {
      if (!f->pieces.empty() || pieces_done != pieces_written || (source && source == &*f)) continue;
      if (!timed && random() % 8) continue;
      closing.push_back(std::move(*f));
      open.erase(f);
      break;
    }
    dut->notice_valid = 0;
    if (!closing.empty()) {
      Frame* announced = nullptr;
      for (Frame& f : closing)
        if (!f.asked) {
          announced = &f;
          break;
        }
      if (announced) {
        Frame& f = *announced;
        if (!f.noticed) f.noticed = dut.cycles(), f.announced = period();
        dut->notice_valid = 1;
        dut->kind = 1;
        dut->index = f.index;
        dut->frame = f.header.frame;
        dut->complete = f.header.complete;
        std::uint64_t units = 0, packets = 0, flags = 0, present = 0;
        for (unsigned b = 0; b < 4; ++b) {
          units |= std::uint64_t{f.header.board[b].bytes / 16u} << 12 * b;
          packets |= std::uint64_t{f.header.board[b].packets} << 5 * b;
          flags |= std::uint64_t{f.header.board[b].flags} << 8 * b;
          present |= std::uint64_t{f.header.board[b].packets != 0} << b;
        }
        dut->units = units;
        dut->packets = static_cast<unsigned>(packets);
        dut->flags = static_cast<unsigned>(flags);
        dut->present = static_cast<unsigned>(present);
      }
    }
    const bool slow = mode == hostile;
    dut->m_ready = !slow || random() % 3 != 0;
    dut->m_done = !completions.empty() && completions.front().first <= dut.cycles();
    if (dut->m_done) {
      dut->m_done_tag = completions.front().second;
      completions.pop_front();
    }
    dut->ev_ready = !slow || random() % 4 == 0;

    dut->period = period();

    dut.settle();
    const bool piece_word = dut->s_valid && dut->s_ready, noticed = dut->notice_valid && dut->notice_ready;
    if (dut->s_done) ++pieces_done;
    if (dut->m_valid && dut->m_ready) {
      if (!writing) {
        to = dut->m_addr;
        at = 0;
        writing = true;
        CHECK(to >= base && to - base + dut->m_len <= buffers * 513 * 64, "write outside the buffers: %lx",
              to);
        CHECK(to / 4096 == (to + dut->m_len - 1) / 4096, "write across pages");
      }
      std::array<std::uint32_t, 8> data;
      for (unsigned i = 0; i < 8; ++i) data[i] = dut->m_data[i];
      const std::size_t bytes = std::min<std::size_t>(32, dut->m_len - at);
      std::memcpy(&memory[to - base + at], data.data(), bytes);
      at += 32;
      CHECK((at >= dut->m_len) == dut->m_last, "last at %lu of %u", at, dut->m_len);
      if (dut->m_last) {
        writing = false;
        completions.emplace_back(dut.cycles() + 1 + (slow ? random() % 40 : 0), dut->m_tag);
        if (completions.size() > 1)
          completions.back().first =
              std::max(completions.back().first, completions[completions.size() - 2].first);
      }
    }
    if (dut->ev_valid && dut->ev_ready) {
      CHECK(!closing.empty(), "event without a frame");
      Frame& f = closing.front();
      CHECK(dut->ev_frame == f.header.frame && dut->ev_buffer == f.index, "frame %u", f.number);
      std::uint32_t bytes = 0;
      for (unsigned b = 0; b < 4; ++b) bytes += f.header.board[b].bytes;
      contract::FrameHeader got;
      const std::byte* const written = &memory[std::size_t{f.index} * 513 * 64];
      std::memcpy(&got, written, sizeof got);
      const bool full = got.unmerged == contract::Unmerged::room;
      if (full) {
        CHECK(mode == hostile, "frame %u: the store is full", f.number);
        f.header.rows = 512;
        f.header.unmerged = contract::Unmerged::room;
        ++rooms;
      } else if (const auto merged = reference(f.buffer.data(), f.header)) {
        bytes = merged;
        ++whole;
      }
      ++reasons[static_cast<unsigned>(f.header.unmerged)];
      // A payload that finds no slot in the store counts for nothing; without any slot the time is 0.
      const std::uint32_t waited = mode == hostile ? f.announced - f.begun : 0;
      CHECK(got.first_period - f.begun <= waited || full, "frame %u: first period %u, begun %u", f.number,
            got.first_period, f.begun);
      CHECK(got.ttc == 3 && got.close_period - f.announced <= period() - f.announced,
            "frame %u: closed at %u", f.number, got.close_period);
      f.header.ttc = got.ttc;
      f.header.first_period = got.first_period;
      f.header.close_period = got.close_period;
      CHECK(std::memcmp(&got, &f.header, sizeof got) == 0, "header of frame %u: reason %u, reference %u",
            f.number, static_cast<unsigned>(got.unmerged), static_cast<unsigned>(f.header.unmerged));
      CHECK(dut->ev_bytes == bytes, "frame %u: bytes %u, reference %u", f.number, dut->ev_bytes, bytes);
      const auto same = [&](std::size_t from, std::size_t count, const char* what) {
        for (std::size_t i = from; i < from + count; ++i)
          CHECK(written[i] == f.buffer[i], "%s of frame %u, reason %u: byte %zu", what, f.number,
                static_cast<unsigned>(f.header.unmerged), i - from);
      };
      if (f.header.layout == contract::Layout::merged) {
        same(64, 16 * f.header.events, "rows");
        same(64 + 16 * 512, 2 * f.header.hits, "hits");
      } else {
        // Bytes between packets are unspecified: packets only.
        for (unsigned b = 0; b < 4; ++b)
          for (std::size_t p = 0; p < f.header.board[b].bytes;) {
            const std::size_t segment = 64 + 8192 * b + p;
            const auto length = mgp::load<std::uint16_t>(&f.buffer[segment + 4]);
            same(segment, length, "segment");
            p += (length + 15u) / 16 * 16;
          }
      }
      cycles.push_back(dut.cycles() - f.noticed);
      closing.pop_front();
      ++finished;
      quiet = 0;
    }
    dut.cycle();
    if (piece_word) {
      if (!source->written++) source->begun = static_cast<std::uint32_t>(dut->period);
      ++word;
      if (dut->s_last) {
        ++pieces_written;
        source->pieces.pop_front();
        source = nullptr;
      }
    }
    if (noticed)
      for (Frame& f : closing)
        if (!f.asked) {
          f.asked = true;
          break;
        }
    CHECK(++quiet < 100'000, "nothing moves: %u of %lu frames", finished, wanted);
  }
  for (int i = 0; i < 200 && !dut->idle; ++i) dut.cycle();
  CHECK(dut->idle, "not idle at the end");
  std::sort(cycles.begin(), cycles.end());
  double mean = 0;
  for (const auto c : cycles) mean += static_cast<double>(c);
  mean /= static_cast<double>(cycles.size());
  std::printf(
      "frames %u merged %u disordered %u hits %u events %u room %u; cycles mean %.1f p99.9 %lu max %lu\n",
      finished, whole, reasons[1], reasons[2], reasons[3], rooms, mean, cycles[cycles.size() * 999 / 1000],
      cycles.back());
  if (limit) CHECK(mean <= static_cast<double>(limit), "mean %.1f cycles", mean);
  if (mode == hostile && wanted >= 1000)
    for (unsigned r = 0; r < 5; ++r) CHECK(reasons[r] > 0, "no frame with reason %u", r);
  return 0;
}

// SPDX-License-Identifier: SHL-2.1
// Harness of stream_trigger: configuration by registers, a TTC line with bursts, MTP packets in time, late
// and of the burst before, also in the cycles around the begin of a burst; packets out of time; a burst
// without SOB. Each trigger leaves at t + L, within one cycle; counters and histogram agree with the
// decisions. Arguments: triggers, L in periods, seed.
#include <cstring>
#include <map>
#include <vector>

#include "harness.hpp"
#include "nanet/ttc/line.hpp"
#include "nanet/wire/mtp.hpp"

namespace {

constexpr double period_cycles = 24.951 / 6.4;
constexpr unsigned bursts = 6;
enum Counter {
  decisions,
  sent,
  joined,
  late,
  early,
  dead,
  choked,
  untimed,
  flushed,
  specials,
  primitives,
  out_of_time = 22,
  burst_mismatch
};

}  // namespace

int main(int argc, char** argv) {
  using namespace nanet;
  const auto wanted = bench::argument(argc, argv, 1);
  const auto latency = static_cast<Timestamp>(bench::argument(argc, argv, 2));
  constexpr unsigned answer_ticks = 512;
  bench::Dut dut(argc, argv);
  std::mt19937_64 random{bench::argument(argc, argv, 3)};
  ttc::Line line(4 * period_cycles);
  std::map<Timestamp, unsigned> held;    // triggers to come
  std::map<long, std::uint64_t> delays;  // cycles from t + L to the pulse
  std::uint64_t start = 0, sob = 0, pulses = 0, specials_seen = 0;

  dut->word_valid = dut->sent = dut->discarded = dut->burst_begins = dut->reg_request = 0;
  dut->sender_next = dut->burst_base = 0;
  dut->burst_number = 0;
  dut->packet_placed = 0;
  dut->packet_burst = 0;
  dut->packet_frame = 0;
  dut->ttc_samples = 0;
  dut.reset();
  const auto cycle = [&] {
    dut->ttc_samples = line.samples(4);
    dut.cycle();
    if (!dut->trigger_valid) return;
    const unsigned kind = dut->trigger_kind;
    CHECK(dut->trigger_timestamp - dut->stamp <= 1 || kind == 0x22, "stamp %u in period %u", dut->stamp,
          dut->trigger_timestamp);
    if (kind >= 0x20) {
      ++specials_seen;
      return;
    }
    const Timestamp t = dut->trigger_timestamp - latency;
    CHECK(!held.empty() && held.begin()->first == t, "release of %u, not of %u", t,
          held.empty() ? 0 : held.begin()->first);
    CHECK(held.begin()->second == kind, "type %x of %x", kind, held.begin()->second);
    held.erase(held.begin());
    const double due = static_cast<double>(start) + line.begin_of(sob + t + latency) / 4;
    ++delays[static_cast<long>(static_cast<double>(dut.cycles()) - due)];
    ++pulses;
  };
  const auto access = [&](bool write, unsigned address, unsigned value) {
    dut->reg_request = 1;
    dut->reg_write = write;
    dut->reg_addr = address;
    dut->reg_wdata = value;
    for (unsigned i = 0; i < 2000; ++i) {
      cycle();
      if (!dut->reg_acknowledge) continue;
      dut->reg_request = 0;
      const unsigned read = dut->reg_rdata;
      cycle();
      return read;
    }
    CHECK(false, "register %x does not answer", address);
    return 0u;
  };
  const auto write = [&](unsigned address, unsigned value) { access(true, address, value); };
  const auto read = [&](unsigned address) { return access(false, address, 0); };
  const auto counter = [&](Counter which) { return read(0x40 + 4 * which); };
  const auto now = [&] { return line.period() > sob ? static_cast<Timestamp>(line.period() - sob) : 0; };

  start = dut.cycles();
  CHECK(read(0x01C) == 10, "places");
  write(0x008, latency);
  write(0x00C, 3);
  write(0x010, 18);
  write(0x014, 0);
  write(0x020, 300);
  write(0x024, answer_ticks);
  write(0x100, 0x4000'4000);
  write(0x104, 0x01);
  write(0x108, 1);
  write(0x110, 0x0001'0001);
  write(0x114, 0x02);
  write(0x118, 1);
  CHECK(read(0x100) == 0x4000'4000 && read(0x114) == 2 && read(0x118) == 1 && read(0x124) == 0 &&
            read(0x020) == 300 && read(0x024) == answer_ticks,
        "masks");
  CHECK((read(0x004) & 8) == 0 && read(0x800) == 0, "the unit is in reset");
  CHECK(dut->stamp == 0 && dut->stamp_state == 0, "stamp without TTC");
  write(0x000, 1);
  for (unsigned i = 0; i < 20'000 && (read(0x004) & 9) != 9; ++i) cycle();
  CHECK((read(0x004) & 9) == 9, "not ready: %x", read(0x004));
  CHECK(read(0x004) & 4 && dut->stamp_state == 5, "time before an SOB");

  // Packet of the sender; discard: its words are dropped.
  const auto send = [&](Frame frame, bool discard, const std::vector<wire::mtp::Primitive>& list) {
    std::array<std::byte, wire::mtp::max_bytes + 32> bytes{};
    const std::size_t length =
        wire::mtp::encode(bytes.data(), frame, list.data(), static_cast<unsigned>(list.size()));
    for (std::size_t at = 0; at < length; at += 32) {
      dut->word_valid = 1;
      dut->word_bytes = length - at < 32 ? length - at : 32;
      std::memcpy(&dut->word[0], bytes.data() + at, 32);
      cycle();
      dut->word_valid = 0;
      if (random() % 4 == 0) cycle();
    }
    (discard ? dut->discarded : dut->sent) = 1;
    cycle();
    dut->sent = dut->discarded = 0;
  };
  const auto idle = [&](unsigned count) {
    for (unsigned i = 0; i < count; ++i) cycle();
  };
  std::uint64_t next = 0, given = 0, dead_expected = 0, late_expected = 0, untimed_expected = 0;
  Timestamp last = 0;
  const auto begin = [&](unsigned burst, bool with_sob = true) {
    dut->sender_next = next - (burst > 0);
    idle(2);
    if (with_sob) {
      sob = line.period() + 2;
      line.send({false, ttc::start_of_burst}, sob);
    }
    dut->burst_begins = 1;
    dut->burst_number = burst + 253;
    dut->burst_base = next;
    cycle();
    dut->burst_begins = 0;
    if (burst > 0) {  // the last packet of the burst before, by the card's time long after its t + L
      idle(burst - 1);
      send(0, false, {{0x4000, 7, 0}});
      ++given, ++late_expected;
    }
    last = 0;
    while (now() < 40) cycle();
  };
  const auto place = [&](unsigned burst, Frame frame) {
    dut->packet_placed = 1;
    dut->packet_burst = burst + 253;
    dut->packet_frame = frame;
    cycle();
    dut->packet_placed = 0;
  };
  for (unsigned burst = 0; burst < bursts; ++burst) {
    begin(burst);
    if (burst > 0) {  // a packet of the burst before: its number is below the new base
      dut->sender_next = next - 1;
      idle(2);
      send(0, false, {{0x4000, 7, 0}});
      idle(200);
      ++given, ++untimed_expected;
    }
    Frame frame = 0;
    for (const auto until = wanted * (burst + 1) / bursts; pulses < until;) {
      while (now() < (frame + 1) * 256) cycle();
      std::vector<wire::mtp::Primitive> list;
      std::map<unsigned, unsigned> times;
      for (int i = static_cast<int>(random() % 12); i-- > 0;) times[random() & 0xFF] = random() & 1;
      const bool discard = random() % 16 == 0;
      for (const auto& [time, odd] : times) {
        list.push_back({static_cast<std::uint16_t>(0x4000 | odd), static_cast<std::uint8_t>(time), 0});
        if (discard) continue;
        ++given;
        const Timestamp t = frame * 256 + time;
        if (last && t - last < 3) {
          ++dead_expected;
          continue;
        }
        held[t] = odd ? 3 : 1;
        last = t;
      }
      dut->sender_next = next;
      idle(2);  // the sender passes a number many cycles before the words of the next
      send(frame, discard, list);
      if (discard) send(frame, false, {});
      ++next, ++frame;
      if (frame % 8 == 0 && frame * 256 > latency + 600) {  // a packet that comes too late
        send(frame - 1 - latency / 256 - 1, false, {{0x4000, 1, 0}});
        ++given, ++late_expected;
      }
    }
    while (!held.empty()) cycle();
    const auto near_limit = [](Timestamp period) { return period % 256 < 30 || period % 256 > 200; };
    while (near_limit(now()) || near_limit(now() - latency)) cycle();
    place(burst, now() / 256 + 1);  // ahead, in time, too old, of another burst
    place(burst, now() / 256);
    place(burst, (now() - latency) / 256);
    place(burst, (now() - latency) / 256 - 1);
    place(burst - 1, now() / 256 + 1);
    CHECK(dut->close_frames == (now() - 300) / 256 && dut->close_burst == ((burst + 253) & 255),
          "%u frames to close in period %u", dut->close_frames, now());
    CHECK(dut->overdue_valid && dut->overdue_frame == (now() - answer_ticks) / 256,
          "answers overdue up to frame %u in period %u", dut->overdue_frame, now());
    line.send({false, ttc::end_of_burst}, line.period() + 2);
    idle(2000);
  }
  // A burst without SOB: its packets are placed, its decisions untimed. The next one has time again.
  begin(bursts, false);
  idle(1200);
  dut->sender_next = next++;
  idle(2);
  place(bursts, 0);
  send(0, false, {{0x4000, 200, 0}, {0x4001, 210, 0}});
  given += 2, untimed_expected += 2;
  idle(200);
  CHECK(dut->close_frames == 0 && !dut->overdue_valid && counter(burst_mismatch) == 1, "%u mismatches",
        counter(burst_mismatch));
  begin(bursts + 1);
  --late_expected, ++untimed_expected;  // the last packet of the burst without SOB
  while (now() < 300) cycle();
  dut->sender_next = next++;
  idle(2);
  send(0, false, {{0x4000, 200, 0}});
  ++given;
  held[200] = 1;
  while (!held.empty()) cycle();
  CHECK(counter(burst_mismatch) == 1 && counter(out_of_time) == 2 * bursts, "%u mismatches, %u out of time",
        counter(burst_mismatch), counter(out_of_time));
  CHECK(pulses >= wanted && specials_seen == 2 * bursts + 1, "%lu pulses, %lu SOB and EOB", pulses,
        specials_seen);
  CHECK(delays.size() <= 2 && delays.rbegin()->first - delays.begin()->first <= 1, "releases from %ld to %ld",
        delays.begin()->first, delays.rbegin()->first);
  CHECK(counter(primitives) == given && counter(decisions) == given, "%u of %lu primitives",
        counter(primitives), given);
  CHECK(counter(sent) == pulses && counter(late) == late_expected && counter(dead) == dead_expected &&
            counter(untimed) == untimed_expected,
        "sent %u late %u of %lu dead %u of %lu untimed %u", counter(sent), counter(late), late_expected,
        counter(dead), dead_expected, counter(untimed));
  CHECK(given == pulses + late_expected + dead_expected + untimed_expected, "account");
  CHECK(counter(specials) == 2 * bursts + 1 && counter(early) == 0 && counter(choked) == 0 &&
            counter(flushed) == 0,
        "others");
  std::uint64_t slack = 0;
  for (unsigned bin = 0; bin < 128; ++bin) slack += read(0x800 + 4 * bin);
  CHECK(slack == pulses + dead_expected, "slack of %lu decisions", slack);
  write(0x000, 0);
  idle(10);
  CHECK(counter(sent) == 0 && (read(0x004) & 8) == 0, "disabled");
  std::printf("pulses %lu, %ld to %ld cycles after t + L\n", pulses, delays.begin()->first,
              delays.rbegin()->first);
  return 0;
}

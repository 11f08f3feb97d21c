// SPDX-License-Identifier: SHL-2.1
// Harness of trigger_line: random decisions with bursts, chokes, lost time and quick SOBs. Every decision
// leaves in period t + L or is counted. Prints the histogram of (release - t - L). Arguments: decisions,
// latency, dead time in ticks, log2 of the places, seed.
#include <array>
#include <deque>
#include <map>
#include <vector>

#include "harness.hpp"

namespace {

constexpr unsigned ahead = 8, margin = ahead + 2;

struct Decision {
  bool timed, burst;
  std::uint32_t timestamp;
  unsigned kind;
};

struct Totals {
  std::uint64_t decisions = 0, sent = 0, joined = 0, late = 0, early = 0, dead = 0, choked = 0, untimed = 0,
                flushed = 0, specials = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const auto wanted = bench::argument(argc, argv, 1), latency = bench::argument(argc, argv, 2);
  const auto min_ticks = bench::argument(argc, argv, 3), log2_places = bench::argument(argc, argv, 4);
  bench::Dut dut(argc, argv);
  std::mt19937_64 random{bench::argument(argc, argv, 5)};
  dut->latency = static_cast<unsigned>(latency);
  dut->min_ticks = min_ticks;
  dut->choke = dut->now_tick = dut->sob = dut->eob = dut->decision_valid = 0;
  dut->now_number = 0;

  // Time of the experiment, as ttc_time gives it.
  bool locked = true, in_burst = false, lost = true;
  std::uint8_t burst = 0;
  std::uint32_t timestamp = 0;
  std::uint64_t tick = 0;  // absolute
  const auto set_now = [&] {
    dut->now = std::uint64_t{locked} << 54 | std::uint64_t{in_burst} << 53 | std::uint64_t{lost} << 52 |
               std::uint64_t{burst} << 44 | timestamp;
  };
  set_now();
  dut.reset();
  while (!dut->ready) dut.cycle();

  Totals sum;
  std::deque<Decision> offered;            // accepted at the port, outcome still open
  std::map<std::uint32_t, unsigned> held;  // timestamp -> types, of this burst
  std::map<long, std::uint64_t> bins;      // release - t - L
  std::uint64_t stale = 0, join_model = 0, given = 0, last_release = 0;
  bool have_release = false, offering = false;
  Decision next{};
  unsigned until_tick = 4, phase = 0, choke_left = 0;
  std::uint64_t next_sob = 2, next_eob = 0;
  const std::uint64_t burst_ticks = (std::uint64_t{1} << log2_places) * 6;
  std::uint64_t quiet = 0, first_gap = ~std::uint64_t{0};
  // Places of an ended burst are flushed or overwritten.
  // Outcomes of a sweep appear four cycles after its tick.
  constexpr unsigned delay = 3;
  std::uint64_t cycle = 0;
  std::array<std::uint32_t, 8> sweeps{};  // period swept, by cycle
  std::array<bool, 8> sweep_valid{};
  std::array<std::uint32_t, 16> swept{};  // by tick
  const auto flush = [&] {
    // The sweep whose outcome appears in this cycle is not affected.
    const auto ends = held.find(sweeps[(cycle - delay) % 8]);
    const bool keeps = ends != held.end() && sweep_valid[(cycle - delay) % 8];
    const std::uint32_t period = keeps ? ends->first : 0;
    const unsigned kind = keeps ? ends->second : 0;
    stale += held.size() - keeps;
    held.clear();
    if (keeps) held[period] = kind;
  };
  while (given < wanted || quiet < (std::uint64_t{20} << log2_places)) {
    if (given >= wanted) ++quiet;
    // A tick every 3.9 cycles.
    bool sob = false, eob = false;
    const bool now_tick = --until_tick == 0;
    if (now_tick) {
      until_tick = ++phase % 10 == 0 ? 3 : 4;
      ++tick;
      ++timestamp;
      if (tick == next_sob) {
        sob = true;
        flush();
        timestamp = 21;
        ++burst;
        in_burst = true;
        lost = false;
        const bool quick = random() % 8 == 0;
        next_eob = tick + (quick ? random() % 1000 : burst_ticks);
        next_sob = next_eob + (quick ? random() % 2000 + 1 : latency + random() % 500);
      } else if (tick == next_eob) {
        eob = true;
        in_burst = false;
      }
      if (choke_left) --choke_left;
      dut->choke = choke_left != 0;
      if (random() % (1 << 17) == 0) choke_left = 1 + random() % 3000;
      if (random() % (1 << 20) == 0) {
        lost = true;
        flush();
      }
    }
    sweeps[cycle % 8] = static_cast<std::uint32_t>(timestamp + ahead - latency);
    sweep_valid[cycle % 8] = now_tick;
    if (now_tick) swept[tick % 16] = sweeps[cycle % 8];
    dut->now_tick = now_tick;
    dut->now_number = tick & 15;
    dut->sob = sob;
    dut->eob = eob;
    set_now();

    if (!offering && given < wanted && random() % 4 == 0) {
      offering = true;
      const std::uint64_t choice = random() % 256;
      std::int64_t age = static_cast<std::int64_t>(random() % latency);
      if (choice < 2)
        age = -1 - static_cast<std::int64_t>(random() % 50);  // still to come
      else if (choice < 6)
        age = static_cast<std::int64_t>(latency + random() % 500);  // too late
      else if (choice < 16)
        age = static_cast<std::int64_t>(latency - 16 + random() % 32);
      next = {choice != 21, bool((burst & 1) ^ (choice == 20)), static_cast<std::uint32_t>(timestamp - age),
              static_cast<unsigned>(random() & 63)};
      if (choice >= 200 && !held.empty()) next.timestamp = held.begin()->first + 20;  // joins
    }
    dut->decision_valid = offering;
    dut->decision = std::uint64_t{next.timed} << 39 | std::uint64_t{next.burst} << 38 |
                    std::uint64_t{next.timestamp} << 6 | next.kind;
    dut.settle();
    const bool was_ready = dut->ready;
    if (offering && dut->decision_ready) {
      offered.push_back(next);
      offering = false;
      ++given;
    }
    dut.cycle();

    // Outcomes: decided in the cycle before these registers, with the time of that cycle.
    const unsigned counts =
        dut->counts;  // decisions 9, sent 8, joined, late, early, dead, choked, untimed, flushed, specials
    sum.decisions += counts >> 9 & 1;
    sum.sent += counts >> 8 & 1;
    sum.joined += counts >> 7 & 1;
    sum.late += counts >> 6 & 1;
    sum.early += counts >> 5 & 1;
    sum.dead += counts >> 4 & 1;
    sum.choked += counts >> 3 & 1;
    sum.untimed += counts >> 2 & 1;
    sum.flushed += counts >> 1 & 1;
    sum.specials += counts & 1;
    if (counts >> 9 & 1) {
      CHECK(!offered.empty(), "an outcome without a decision");
      const Decision d = offered.front();
      offered.pop_front();
      const std::int64_t age = static_cast<std::int32_t>(timestamp - d.timestamp);
      const unsigned outcome =
          (counts >> 6 & 1) | (counts >> 5 & 1) << 1 | (counts >> 2 & 1) << 2 | dut->slack_valid << 3;
      CHECK(__builtin_popcount(outcome) == 1, "outcome %x", outcome);
      if (dut->slack_valid) {
        CHECK(!lost && d.timed && d.burst == (burst & 1), "placed without time");
        CHECK(age >= 0 && latency - age >= margin, "placed at age %ld", static_cast<long>(age));
        CHECK(dut->slack == latency - age, "slack %u of %ld", dut->slack, static_cast<long>(latency - age));
        const auto [place, fresh] = held.try_emplace(d.timestamp, 0);
        place->second |= d.kind;
        join_model += !fresh;
      } else if (outcome & 1) {
        CHECK(static_cast<long>(latency) - age < margin, "late at age %ld", static_cast<long>(age));
      } else if (outcome & 2) {
        CHECK(age < 0, "early at age %ld", static_cast<long>(age));
      } else {
        CHECK(lost || !d.timed || d.burst != (burst & 1) || !was_ready, "untimed with time");
      }
    }
    if (dut->release_valid) {
      const unsigned number = dut->released >> 6, kind = dut->released & 63;
      // Absolute tick of the release, from its low bits.
      const std::uint64_t at = tick + ((number - tick) & 15);
      CHECK(at - tick <= ahead && at - tick >= ahead - 1, "released %lu ticks ahead", at - tick);
      if (have_release && min_ticks) {
        const std::uint64_t gap = at - last_release;
        if (gap < first_gap) first_gap = gap;
        CHECK(gap >= min_ticks, "two releases %lu ticks apart", gap);
      }
      last_release = at;
      have_release = true;
      if (counts >> 8 & 1) {
        const std::uint32_t t = swept[(at - ahead) % 16];
        const auto found = held.find(t);
        if (found != held.end()) {
          CHECK(found->second == kind, "types %x of %x", kind, found->second);
          ++bins[0];
          held.erase(found);
        } else {
          auto near = held.lower_bound(t);
          ++bins[near == held.end() ? 99'999 : static_cast<long>(near->first) - static_cast<long>(t)];
        }
      } else {
        CHECK(kind >= 0x22 && kind <= 0x25, "special type %x", kind);
      }
    }
    // Dropped by dead time or choke: the place of the sweep that ended now.
    if (counts >> 4 & 1 || counts >> 3 & 1) {
      const std::uint32_t t = sweeps[(cycle - delay) % 8];
      CHECK(held.erase(t) == 1, "nothing to drop at %u", t);
    }
    // A place whose tick passed must be gone: never released later.
    if (now_tick && !held.empty()) {
      const std::int64_t age = static_cast<std::int32_t>(timestamp - held.begin()->first);
      CHECK(age + ahead <= static_cast<std::int64_t>(latency) + 1, "t = %u was not released",
            held.begin()->first);
    }
    ++cycle;
  }
  CHECK(offered.empty() && sum.decisions == wanted, "%lu decisions", sum.decisions);
  const std::uint64_t account =
      sum.sent + sum.joined + sum.late + sum.early + sum.dead + sum.choked + sum.untimed + sum.flushed;
  CHECK(account == sum.decisions, "account %lu of %lu", account, sum.decisions);
  CHECK(sum.joined == join_model, "joined %lu, model %lu", sum.joined, join_model);
  CHECK(bins.size() == 1 && bins.begin()->first == 0 && bins[0] == sum.sent, "%zu bins", bins.size());
  std::printf(
      "decisions %lu sent %lu joined %lu late %lu early %lu dead %lu choked %lu untimed %lu flushed %lu "
      "specials %lu bins %zu stale %lu ticks %lu gap %lu\n",
      sum.decisions, sum.sent, sum.joined, sum.late, sum.early, sum.dead, sum.choked, sum.untimed,
      sum.flushed, sum.specials, bins.size(), stale, tick, first_gap);
  return 0;
}

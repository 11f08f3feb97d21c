// SPDX-License-Identifier: SHL-2.1
// Harness of ttc_sample: random bits as biphase mark with edge jitter, duty distortion and a clock
// difference. Arguments: bits, jitter in ps rms, duty distortion in ps, clock difference in ppm, line in Hz,
// seed.
#include <vector>

#include "harness.hpp"

namespace {

// Line level from the times of its edges, in ns.
class Line {
 public:
  Line(double half_ns, double jitter_ns, double distortion_ns, std::uint64_t seed)
      : half_(half_ns),
        distortion_(distortion_ns),
        noise_(0, jitter_ns > 0 ? jitter_ns : 1e-9),
        random_(seed) {}
  void bit(bool value) {
    edge();
    if (value) {
      at_ += half_;
      edge();
      at_ += half_;
    } else {
      at_ += 2 * half_;
    }
  }
  double now() const { return at_; }
  bool level(double time) {
    while (next_ < edges_.size() && edges_[next_] <= time) {
      ++next_;
      level_ = !level_;
    }
    return level_;
  }

 private:
  // A rising edge comes early and a falling one late by half the distortion.
  void edge() {
    rising_ = !rising_;
    edges_.push_back(at_ + (rising_ ? -0.5 : 0.5) * distortion_ + noise_(random_));
  }
  double half_, distortion_, at_ = 10;
  std::normal_distribution<double> noise_;
  std::mt19937_64 random_;
  std::vector<double> edges_;
  std::size_t next_ = 0;
  bool level_ = false, rising_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  const auto count = bench::argument(argc, argv, 1);
  const double jitter = 1e-3 * static_cast<double>(bench::argument(argc, argv, 2));
  const double distortion = 1e-3 * static_cast<double>(bench::argument(argc, argv, 3));
  const double ppm = std::atof(argv[4]);
  const double hertz = static_cast<double>(bench::argument(argc, argv, 5));
  bench::Dut dut(argc, argv);
  std::mt19937_64 random{bench::argument(argc, argv, 6)};
  Line line(1e9 / hertz / 4, jitter, distortion, random());
  std::vector<bool> sent, received;
  const auto send = [&](bool value) {
    line.bit(value);
    sent.push_back(value);
  };
  for (int i = 0; i < 200; ++i) send(i % 2);
  for (unsigned long i = 0; i < count; ++i) send(random() & 1);

  const double sample_ns = 1.6 * (1 + 1e-6 * ppm);
  double time = 0;
  dut->samples = 0;
  dut.reset();
  std::uint64_t violations = 0;
  const auto cycle = [&] {
    unsigned samples = 0;
    for (unsigned i = 0; i < 4; ++i, time += sample_ns)
      samples |= static_cast<unsigned>(line.level(time)) << i;
    dut->samples = static_cast<CData>(samples);
    dut.cycle();
    if (dut->bit_valid) received.push_back(dut->bit_value);
    violations += dut->violation;
  };
  while (time < line.now()) cycle();
  CHECK(dut->locked, "not locked");
  // Ten periods without an edge: unlocked.
  unsigned quiet = 0;
  while (dut->locked && quiet < 100) {
    cycle();
    ++quiet;
  }
  CHECK(quiet >= 36 && quiet <= 45, "unlocked after %u cycles", quiet);

  // Received is the tail of sent, but for the bits before the first recognised cell and the unfinished last
  // one.
  while (!received.empty() && received.size() > sent.size()) received.erase(received.begin());
  std::size_t best = sent.size(), errors = 0;
  for (std::size_t lag = 0; lag <= 4; ++lag) {
    const std::size_t from = sent.size() - lag - received.size();
    if (from > sent.size()) continue;
    std::size_t wrong = 0;
    for (std::size_t i = 100; i < received.size(); ++i) wrong += sent[from + i] != received[i];
    if (lag == 0 || wrong < errors) {
      errors = wrong;
      best = lag;
    }
  }
  CHECK(received.size() + 20 > sent.size(), "%zu of %zu bits", received.size(), sent.size());
  CHECK(errors == 0, "%zu wrong bits of %zu at lag %zu, %lu violations", errors, received.size(), best,
        violations);
  CHECK(violations == 0, "%lu violations", violations);

  // Noise: no lock.
  for (int i = 0; i < 100'000; ++i) {
    dut->samples = random() & 15;
    dut.cycle();
    CHECK(!dut->locked, "locked on noise");
  }
  std::printf("bits %zu errors %zu\n", received.size(), errors);
  return 0;
}

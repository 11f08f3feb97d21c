// SPDX-License-Identifier: Apache-2.0
#include "nanet/rich/generator.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "nanet/rich/pm_finder.hpp"
#include "nanet/rich/random.hpp"

namespace nanet::rich {
namespace {

constexpr double masses[] = {0.000510999, 0.1056584, 0.1395702,
                             0.493677};  // GeV/c^2, in the order of Particle
// Unit vectors in steps of 1/256 turn; a short series covers the remaining angle.
constexpr unsigned steps = 256;
constexpr double step_angle = 6.283185307179586 / steps;
constexpr unsigned max_photons = 1024;  // per event: far above the maximum of the options

struct UnitCircle {
  std::array<double, steps> cosine, sine;
  UnitCircle() {
    for (unsigned i = 0; i < steps; ++i) {
      double c = 1.0, s = 0.0, half_c = -1.0, half_s = 0.0;  // half_*: half a turn, then a quarter, ...
      for (unsigned bit = steps / 2; bit > 0; bit /= 2) {
        if (i & bit) {
          const double next = c * half_c - s * half_s;
          s = s * half_c + c * half_s;
          c = next;
        }
        const double c2 = std::sqrt(std::max(0.0, (1.0 + half_c) / 2)), s2 = std::sqrt((1.0 - half_c) / 2);
        half_c = c2;
        half_s = s2;
      }
      cosine[i] = c;
      sine[i] = s;
    }
  }
};

}  // namespace

double ring_radius_mm(Particle particle, double momentum, const MonteCarlo& optics) {
  const double m = masses[static_cast<unsigned>(particle)];
  const double cosine = std::sqrt(1.0 + m * m / (momentum * momentum)) / optics.index;  // 1 / (beta n)
  if (cosine >= 1.0) return 0.0;
  return optics.focal_mm * std::sqrt(1.0 - cosine * cosine) / cosine;
}

double mean_photoelectrons(double radius_mm, const MonteCarlo& optics) {
  const double tangent = radius_mm / optics.focal_mm;
  return optics.merit_per_cm * optics.radiator_cm * tangent * tangent / (1.0 + tangent * tangent);
}

std::string_view name(Particle particle) {
  constexpr std::string_view names[] = {"e", "mu", "pi", "K"};
  return names[static_cast<unsigned>(particle) & 3];
}

struct Generator::State {
  State(const GeneratorOptions& o, const Geometry& geometry)
      : options(o),
        model(geometry.monte_carlo),
        on_lattice(is_na62(geometry)),
        lattice(on_lattice ? geometry : *na62()),
        finder(geometry),
        shift(geometry.shift),
        random(o.seed),
        channels(static_cast<std::uint32_t>(geometry.channels())) {
    for (std::size_t pm = 0; pm < geometry.channels(); ++pm)
      board_of.push_back(static_cast<std::uint8_t>(geometry.board_of(static_cast<PmId>(pm))));
    for (unsigned board = 0; board < geometry.boards(); ++board)
      board_offset.push_back(random.uniform(-o.board_offset_ns, o.board_offset_ns));
    no_noise = portable::exp(-o.noise);
  }

  // Whether the positions on the disks are NA62's, so that arithmetic finds the PM of a photon.
  static bool is_na62(const Geometry& geometry) {
    const Geometry& other = *na62();
    const auto same = [](const Point& a, const Point& b) { return a.x == b.x && a.y == b.y; };
    return geometry.monte_carlo.reach_mm == other.monte_carlo.reach_mm && geometry.disk_of == other.disk_of &&
           std::equal(geometry.disk.begin(), geometry.disk.end(), other.disk.begin(), other.disk.end(), same);
  }

  unsigned draw_rings() {
    if (options.rings != ring_mix) return static_cast<unsigned>(options.rings);
    double u = random.uniform();
    unsigned n = 0;
    while (n < 4 && u >= model.ring_shares[n]) u -= model.ring_shares[n++];
    return n;
  }

  TrueRing draw_ring() {
    TrueRing ring{};
    const double u = random.uniform();
    const auto share = [this](Particle p) { return model.particle_shares[static_cast<unsigned>(p)]; };
    const double muons = share(Particle::muon), muons_pions = muons + share(Particle::pion);
    ring.particle = u < muons                         ? Particle::muon
                    : u < muons_pions                 ? Particle::pion
                    : u < 1.0 - share(Particle::kaon) ? Particle::electron
                                                      : Particle::kaon;
    double r = 0;
    while (r <= 0) {  // below threshold: draw another momentum
      ring.momentum = static_cast<float>(random.uniform(model.momentum_low, model.momentum_high));
      r = ring_radius_mm(ring.particle, static_cast<double>(ring.momentum), model);
    }
    ring.x = static_cast<float>(model.centre_x + model.centre_sigma * random.normal());
    ring.y = static_cast<float>(model.centre_sigma * random.normal());
    ring.r = static_cast<float>(r);
    return ring;
  }

  // Adds the photons of a ring as points on their disks.
  void add_photons(const TrueRing& ring, std::uint8_t owner) {
    const double x0 = static_cast<double>(ring.x), y0 = static_cast<double>(ring.y),
                 r = static_cast<double>(ring.r), optics_mm = model.optics_mm;
    const auto disks = static_cast<std::uint32_t>(shift.size());
    const unsigned end = std::min(photons + random.poisson(mean_photoelectrons(r, model)), max_photons);
    for (; photons < end; ++photons) {
      const std::uint64_t word = random.bits();  // 8 bits step, 24 bits disk, 32 bits angle within the step
      const unsigned step = static_cast<unsigned>(word >> 56);
      const auto disk = static_cast<unsigned>((word >> 32 & 0xFFFFFF) * disks >> 24);
      const double a = (static_cast<double>(static_cast<std::uint32_t>(word)) * 0x1p-32 - 0.5) * step_angle;
      const double sa = a * (1.0 - a * a * (1.0 / 6.0)), ca = 1.0 - 0.5 * a * a;  // |a| < 0.0123
      const double c = circle.cosine[step] * ca - circle.sine[step] * sa;
      const double s = circle.sine[step] * ca + circle.cosine[step] * sa;
      x[photons] = static_cast<float>(x0 + r * c + optics_mm * random.normal()) + shift[disk].x;
      y[photons] = static_cast<float>(y0 + r * s + optics_mm * random.normal()) + shift[disk].y;
      source[photons] = disk << 8 | owner;
    }
  }

  // Converts photons that land on a PM to hits.
  void detect() {
    const unsigned count = photons;  // local copy: stores to the arrays could alias the member
    if (!on_lattice) return detect_anywhere();
    for (unsigned i = 0; i < count; ++i) places[i] = PmFinder::place(x[i], y[i]);
    unsigned n = 0;
    for (unsigned i = 0; i < count; ++i) {
      const int pm = lattice.at(places[i], x[i], y[i]);
      if (pm == no_pm) continue;
      keys[n] = key(static_cast<unsigned>(pm) + (source[i] >> 8) * (pm_count / 2), source[i] & 0xFF, n);
      ++n;
    }
    hits = n;
  }
  void detect_anywhere() {
    for (unsigned i = 0; i < photons; ++i) {
      const int pm = finder.find(source[i] >> 8, x[i], y[i]);
      if (pm == no_pm) continue;
      keys[hits] = key(static_cast<unsigned>(pm), source[i] & 0xFF, hits);
      ++hits;
    }
  }

  void add_noise() {
    const unsigned end = std::min(hits + random.poisson(options.noise, no_noise), max_photons);
    for (; hits < end; ++hits) keys[hits] = key(random.below(channels), noise_owner, hits);
  }

  static std::uint32_t key(unsigned pm, unsigned owner, unsigned index) {
    return (pm << 3 | (owner & 7)) << 10 | index;  // the largest owner stands for noise_owner
  }

  void draw_times(double event_ns) {
    for (unsigned i = 0; i < hits; ++i) {
      times[i] = event_ns + board_offset[board_of[keys[i] >> 13]] + options.hit_sigma_ns * random.normal();
    }
  }

  // Sorts the photons by PM and owner. Merges photons of one owner on one PM, keeping the earliest time.
  void collect(TrueEvent& event) {
    const unsigned n = hits;
    for (unsigned i = 0; i < n; ++i) {  // keys are distinct: rank = number of smaller keys
      unsigned rank = 0;
      const std::uint32_t mine = keys[i];
      for (unsigned k = 0; k < n; ++k) rank += keys[k] < mine;
      sorted[rank] = mine;
    }
    event.hits.clear();
    event.distinct_hits = 0;
    std::uint32_t last = ~0u;
    for (unsigned i = 0; i < n; ++i) {
      const std::uint32_t channel = sorted[i] >> 10;
      const double time = times[sorted[i] & (max_photons - 1)];
      if (channel == last) {
        event.hits.back().time_ns = std::min(event.hits.back().time_ns, time);
        continue;
      }
      event.distinct_hits += (channel >> 3) != (last >> 3);
      const auto owner = static_cast<std::uint8_t>((channel & 7) == 7 ? noise_owner : channel & 7);
      if (owner != noise_owner && event.rings[owner].hits < 255) ++event.rings[owner].hits;
      event.hits.push_back({static_cast<PmId>(channel >> 3), owner, time});
      last = channel;
    }
  }

  GeneratorOptions options;
  MonteCarlo model;
  bool on_lattice;  // NA62's
  PmFinder lattice;
  NearestPm finder;
  std::vector<Point> shift;  // by disk
  Random random;
  std::uint32_t channels;
  std::vector<std::uint8_t> board_of;
  std::vector<double> board_offset;
  UnitCircle circle;
  double clock_ns = 0;
  std::uint64_t number = 0;
  double no_noise;  // probability of an event without noise
  unsigned photons = 0, hits = 0;
  std::array<float, max_photons> x, y;
  std::array<unsigned, max_photons> source;  // disk and ring
  std::array<int, max_photons> places;
  std::array<std::uint32_t, max_photons> keys, sorted;  // PM 16 bits, owner 3 bits, index into times 10 bits
  std::array<double, max_photons> times;
};

Generator::Generator(const GeneratorOptions& options, const Geometry& geometry)
    : state_(new State(options, geometry)) {}
Generator::~Generator() {
  delete state_;
}
Generator::Generator(Generator&& other) noexcept : state_(other.state_) {
  other.state_ = nullptr;
}

void Generator::next(TrueEvent& event) {
  State& s = *state_;
  s.clock_ns += s.random.exponential() * (1e9 / s.options.rate);
  event.number = s.number++;
  event.time_ns = s.clock_ns;
  event.rings.clear();
  s.photons = s.hits = 0;
  const unsigned rings = s.draw_rings();
  for (unsigned i = 0; i < rings; ++i) {
    event.rings.push_back(s.draw_ring());
    s.add_photons(event.rings.back(), static_cast<std::uint8_t>(i));
  }
  s.detect();
  s.add_noise();
  s.draw_times(s.clock_ns);
  s.collect(event);
}

}  // namespace nanet::rich

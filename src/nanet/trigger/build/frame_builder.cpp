// SPDX-License-Identifier: Apache-2.0
// Frame builder: payload lists, merging, hit unpacking with AVX2.
#include "nanet/trigger/build/frame_builder.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "nanet/wire/join.hpp"
#include "nanet/wire/mgp.hpp"

namespace nanet::trigger {
namespace {

namespace mgp = wire::mgp;

constexpr std::size_t vector_room = 32;  // hit words that vectors may take after the last event

// Number of fragment lists: 1, 4 or 8, so that loops over boards have a fixed length.
constexpr unsigned lists_for(unsigned boards) {
  return boards == 1 ? 1 : boards <= 4 ? 4 : max_boards;
}

// Table of 1 / (2 hits).
constexpr auto reciprocal = [] {
  std::array<double, max_event_hits + 1> table{};
  for (unsigned i = 1; i <= max_event_hits; ++i) table[i] = 0.5 / i;
  return table;
}();

#ifdef __AVX2__
alignas(64) constexpr auto lane_mask = [] {
  std::array<std::uint16_t, 33> mask{};
  for (unsigned i = 0; i < 16; ++i) mask[i] = 0xFFFF;
  return mask;
}();
// Mask of the first n of 16 lanes, n 0 - 16.
inline __m256i first_lanes(std::uint32_t n) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lane_mask.data() + 16 - n));
}

// The same for the vectors of an event: no limits to n, as limits would be branches that depend on the data.
alignas(64) constexpr auto event_mask = [] {
  std::array<std::uint16_t, max_event_hits + 48> mask{};
  for (unsigned i = 0; i < max_event_hits; ++i) mask[i] = 0xFFFF;
  return mask;
}();

inline std::int32_t sum_lanes(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
  return _mm_cvtsi128_si32(s);
}
#endif

// Hit words with PM IDs of 11 bits and times; of 16 bits without times.
struct NarrowWords {
  static constexpr std::uint16_t mask = 0x7FF;
  static constexpr unsigned pms = pm_count;
  static std::int32_t lsb(std::uint16_t word) { return mgp::hit_lsb(word); }
};
struct WideWords {
  static constexpr std::uint16_t mask = 0xFFFF;
  static constexpr unsigned pms = 65536;
  static std::int32_t lsb(std::uint16_t) { return 0; }
};
template <class Words>
PmId pm_of(std::uint16_t word) {
  return static_cast<PmId>(word & Words::mask);
}

// Unpacks the hits of one fragment to `pm` and sums their time differences, in units of 4 LSB. Reads and
// writes whole vectors: up to 15 words after the last hit. Returns false unless all PM IDs are valid and
// strictly ascending.
template <class Words>
struct HitUnpacker {
#ifdef __AVX2__
  __m256i differences = _mm256_setzero_si256();
  __m256i wrong = _mm256_setzero_si256();

  [[gnu::always_inline]] void operator()(const std::byte* hits, std::uint32_t n, PmId* pm) {
    sixteen(hits, std::min<std::uint32_t>(n, 16), pm);
    if (n > 16) {
      seam |= pm_of<Words>(mgp::load<std::uint16_t>(hits + 30)) >=
              pm_of<Words>(mgp::load<std::uint16_t>(hits + 32));
      sixteen(hits + 32, n - 16, pm + 16);
    }
  }
  [[gnu::always_inline]] void sixteen(const std::byte* hits, std::uint32_t n, PmId* pm) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(hits));
    const __m256i lanes = first_lanes(n);
    __m256i ids = _mm256_and_si256(words, _mm256_set1_epi16(static_cast<short>(Words::mask)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(pm), ids);
    if constexpr (wide)
      ids = _mm256_xor_si256(ids, _mm256_set1_epi16(-0x8000));  // signed comparisons in unsigned order
    else
      differences = _mm256_add_epi32(
          differences,
          _mm256_madd_epi16(_mm256_and_si256(_mm256_srai_epi16(words, 11), lanes), _mm256_set1_epi16(1)));
    // Compares neighbours in the register: reloading the stored words at an offset would stall store
    // forwarding. The last hit has no neighbour; its lane is masked as by first_lanes(n - 1), n = 0 included.
    const __m256i next = _mm256_alignr_epi8(_mm256_permute2x128_si256(ids, ids, 0x81), ids, 2);
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lane_mask.data() + 17 - n));
    const __m256i descends = _mm256_andnot_si256(_mm256_cmpgt_epi16(next, ids), pairs);
    wrong = _mm256_or_si256(wrong, descends);
    if constexpr (!wide) {
      const __m256i last = _mm256_set1_epi16(pm_count - 1);
      wrong = _mm256_or_si256(wrong, _mm256_and_si256(_mm256_cmpgt_epi16(ids, last), lanes));
    }
  }
  std::int32_t sum() const { return sum_lanes(differences); }
  bool ascending() const { return !seam && _mm256_testz_si256(wrong, wrong); }
  bool seam = false;
  static constexpr bool wide = Words::mask == 0xFFFF;
#else
  std::int32_t differences = 0;
  bool wrong = false;

  void operator()(const std::byte* hits, std::uint32_t n, PmId* pm) {
    for (std::uint32_t i = 0; i < n; ++i) {
      const auto word = mgp::load<std::uint16_t>(hits + 2 * i);
      pm[i] = pm_of<Words>(word);
      differences += Words::lsb(word) / 4;
      wrong |= pm[i] >= Words::pms || (i > 0 && pm[i] <= pm[i - 1]);
    }
  }
  std::int32_t sum() const { return differences; }
  bool ascending() const { return !seam && !wrong; }
  bool seam = false;
#endif
};

}  // namespace

FrameBuilder::FrameBuilder(std::size_t segment_bytes, unsigned boards, std::int32_t window_lsb, bool wide)
    : window_(window_lsb), wide_(wide), in_event_(wide ? WideWords::pms : NarrowWords::mask + 1u) {
  // An event takes at least 8 B on the wire, a hit 2 B. Fragment numbers have 16 bits, within a list 15.
  const unsigned lists = lists_for(boards);
  capacity_ = static_cast<std::uint32_t>(std::min<std::size_t>(segment_bytes / mgp::event_header_bytes,
                                                               std::min(65526 / lists, mgp::most_in_list)));
  const std::size_t fragments = std::size_t{capacity_} * lists + indexed_at_once;
  fragments_.resize(fragments);
  members_.resize(fragments);
  for (auto* v : {&time_, &opened_, &order_}) v->resize(fragments);
  for (auto* v : {&mask_, &truncated_}) v->resize(fragments);
  first_.resize(fragments + 1);
  keys_.resize(fragments);
  times_.resize(fragments + max_boards + 1);  // join_four() reads one behind an end marker
  pm_.resize(segment_bytes / 2 * boards + vector_room);
  words_.resize(pm_.size() + 1);
}

#ifdef __AVX2__
// mgp::join() for four boards, a lane each. A key is loaded one event before it may be needed, so that the
// way from one event to the next has no load.
void FrameBuilder::join_four() noexcept {
  const std::uint32_t* next[4];  // behind the keys in the lanes
  for (unsigned b = 0; b < 4; ++b) next[b] = times_.data() + begin(b) + b;
  const auto four = [&] {
    return _mm_setr_epi32(static_cast<int>(*next[0]), static_cast<int>(*next[1]), static_cast<int>(*next[2]),
                          static_cast<int>(*next[3]));
  };
  __m128i key = four();
  for (auto& n : next) ++n;
  __m128i after = four();
  const __m128i number_bits = _mm_set1_epi32(static_cast<int>(mgp::most_in_list));
  const __m128i window =
      _mm_set1_epi32(static_cast<int>(mgp::keys_beyond(static_cast<std::uint32_t>(window_)) - 1));
  const __m128i empty = _mm_set1_epi32(static_cast<int>(fragments_.size() - 1));
  const __m128i base = _mm_setr_epi32(static_cast<int>(begin(0)), static_cast<int>(begin(1)),
                                      static_cast<int>(begin(2)), static_cast<int>(begin(3)));
  auto* const members = members_.data();
  std::uint16_t* const opened = opened_.data();
  std::uint8_t* const masks = mask_.data();
  std::uint32_t event = 0;
  for (;; ++event) {
    __m128i first = _mm_min_epu32(key, _mm_shuffle_epi32(key, 0x4E));
    first = _mm_min_epu32(first, _mm_shuffle_epi32(first, 0xB1));
    const auto earliest = static_cast<std::uint32_t>(_mm_cvtsi128_si32(first));
    if (earliest == mgp::end_of_fragments) break;
    const __m128i apart = _mm_sub_epi32(key, _mm_andnot_si128(number_bits, first));
    const __m128i joins = _mm_cmpeq_epi32(_mm_min_epu32(apart, window), apart);
    const __m128i member =
        _mm_blendv_epi8(empty, _mm_add_epi32(base, _mm_and_si128(key, number_bits)), joins);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(members[event].data()), _mm_packus_epi32(member, member));
    const auto mask = static_cast<std::uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(joins)));
    opened[event] = static_cast<std::uint16_t>(earliest >> mgp::key_number_bits);
    masks[event] = static_cast<std::uint8_t>(mask);
    key = _mm_blendv_epi8(key, after, joins);
    for (unsigned b = 0; b < 4; ++b) next[b] += mask >> b & 1u;
    after = four();
  }
  built_.events = event;
}
#endif

template <unsigned boards>
void FrameBuilder::join() noexcept {
#ifdef __AVX2__
  if constexpr (boards == 4) return join_four();
#endif
  std::array<const std::uint32_t*, boards> times;
  for (unsigned b = 0; b < boards; ++b) times[b] = times_.data() + begin(b) + b;
  const auto empty = static_cast<std::uint32_t>(fragments_.size() - 1);
  std::array<std::uint32_t, boards> base;  // of the board's fragments
  for (unsigned b = 0; b < boards; ++b) base[b] = begin(b);
  auto* const members = members_.data();
  std::uint16_t* const opened = opened_.data();
  std::uint8_t* const masks = mask_.data();
  built_.events =
      mgp::join<boards>(times, static_cast<std::uint32_t>(window_),
                        [&](std::uint32_t event, std::uint32_t first, const auto& joins, const auto& number) {
                          std::uint32_t mask = 0;
                          for (unsigned b = 0; b < boards; ++b) {  // without branches, as join()
                            const std::uint32_t member = base[b] + number[b];
                            members[event][b] = static_cast<std::uint16_t>(joins[b] ? member : empty);
                            mask |= std::uint32_t{joins[b]} << b;
                          }
                          opened[event] = static_cast<std::uint16_t>(first);
                          masks[event] = static_cast<std::uint8_t>(mask);
                        });
}

// hits: at most 128.
inline void FrameBuilder::set_time(std::uint32_t event, std::int32_t sum, std::uint32_t hits) noexcept {
  if (hits == 0) {
    time_[event] = opened_[event];
    return;
  }
  // Mean rounded half up, clamped to the frame. A multiplication by the reciprocal is exact enough. The
  // numerator is an integer, and the added half keeps the quotient at least 1/4 hit from any integer.
  const auto twice = static_cast<std::int32_t>(2 * sum + hits);
  const auto mean = twice < 0 ? 0 : static_cast<std::int32_t>((twice + 0.5) * reciprocal[hits]);
  time_[event] = static_cast<std::uint16_t>(std::min<std::int32_t>(mean, lsb_per_frame - 1));
}

// Concatenates the hits of the event's fragments by board. PM IDs ascend with the board and within a
// fragment, so no sorting is needed; invalid input takes the slow path. A missing board contributes the empty
// fragment, so that all events take the same steps.
template <unsigned boards, class Words>
[[gnu::always_inline]] inline void FrameBuilder::assemble(std::uint32_t event, std::uint32_t& at) noexcept {
  const Fragment* const fragments = fragments_.data();
  const auto& members = members_[event];
  PmId* const pm = pm_.data();
  std::uint32_t out = at;
  std::uint32_t sum = 0, truncated = 0;
  std::uint32_t last = 0;  // last PM ID so far, plus one
  std::uint32_t disorder = 0;
  HitUnpacker<Words> unpack;
  for (unsigned b = 0; b < boards; ++b) {
    const Fragment f = fragments[members[b]];
    const std::byte* const hits = base_ + f.hits;
    const std::uint32_t n = f.stored();
    truncated |= f.truncated();
    sum += n * f.time();
    const std::uint32_t lowest = pm_of<Words>(mgp::load<std::uint16_t>(hits));
    const std::uint32_t highest = pm_of<Words>(mgp::load<std::uint16_t>(hits + 2 * (n ? n - 1 : 0))) + 1u;
    disorder |= static_cast<std::uint32_t>(lowest < last) & static_cast<std::uint32_t>(n != 0);
    last = n ? highest : last;
    unpack(hits, n, pm + out);
    out += n;
  }
  truncated_[event] = static_cast<std::uint8_t>(truncated);
  const std::uint32_t hits = out - at;
  if (disorder || !unpack.ascending() || hits > max_event_hits) return assemble_unordered<Words>(event, at);
  std::int32_t times = static_cast<std::int32_t>(sum) + 4 * unpack.sum();
  if (conditions_ && !correct(at, hits, times)) return assemble_unordered<Words>(event, at);
  set_time(event, times, hits);
  at = out;
}

// Subtracts the time offsets of the hits from the sum of their times. All PM IDs are valid. Returns false if
// a hit is masked.
bool FrameBuilder::correct(std::uint32_t at, std::uint32_t hits, std::int32_t& sum) const noexcept {
  const Conditions& conditions = *conditions_;
  std::int32_t offsets = 0;
  std::uint32_t masked = 0;
  for (std::uint32_t i = at; i < at + hits; ++i) {
    offsets += conditions.t0[pm_[i]];
    masked |= conditions.masked[pm_[i]];
  }
  sum -= offsets;
  return masked == 0;
}

#ifdef __AVX2__
// Hits of the usual frame: PM IDs valid and ascending in every event, no conditions. First the words of an
// event's fragments are put side by side; then an event is checked and unpacked as a whole, which takes half
// the vectors. In two loops: a load that spans several stores in flight would wait for them. Returns false
// for any other frame.
template <unsigned boards, class Words>
bool FrameBuilder::assemble_usual() noexcept {
  constexpr std::uint32_t lanes = 16;
  const Fragment* const fragments = fragments_.data();
  std::uint16_t* const words = words_.data();
  std::uint32_t* const sums = keys_.data();  // of fragment times, by event
  const std::uint32_t events = built_.events;
  // Local copies: vector stores may alias the members and would force reloads.
  const std::byte* const base = base_;
  const auto* const members = members_.data();
  std::uint32_t* const first = first_.data();
  std::uint8_t* const any_truncated = truncated_.data();
  std::uint32_t at = 0;
  const auto copy = [&](const std::byte* hits, std::uint32_t to) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + to),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(hits)));
  };
  for (std::uint32_t e = 0; e < events; ++e) {
    first[e] = at;
    std::uint32_t sum = 0, truncated = 0;
    for (unsigned b = 0; b < boards; ++b) {
      const Fragment f = fragments[members[e][b]];
      const std::byte* const hits = base + f.hits;
      copy(hits, at);
      if (f.stored() > lanes) copy(hits + 2 * lanes, at + lanes);
      at += f.stored();
      sum += f.stored() * f.time();
      truncated |= f.truncated();
    }
    any_truncated[e] = static_cast<std::uint8_t>(truncated);
    sums[e] = sum;
  }
  first[events] = at;
  const auto first_of = [](std::int32_t n) {  // mask of n lanes, n -32 to 128: none below 0, all above 16
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(event_mask.data() + max_event_hits - n));
  };
  PmId* const pm = pm_.data();
  const __m256i ids_only = _mm256_set1_epi16(static_cast<short>(Words::mask));
  const __m256i sign = _mm256_set1_epi16(Words::mask == 0xFFFF ? -0x8000 : 0);  // unsigned order as signed
  __m256i wrong = _mm256_setzero_si256();
  for (std::uint32_t e = 0; e < events; ++e) {
    const std::uint32_t from = first[e];
    const auto hits = static_cast<std::int32_t>(first[e + 1] - from);
    if (hits > static_cast<std::int32_t>(max_event_hits)) return false;
    __m256i differences = _mm256_setzero_si256();
    const auto unpack = [&](std::int32_t i) {
      const auto* const in = reinterpret_cast<const __m256i*>(words + from + i);
      const __m256i word = _mm256_loadu_si256(in),
                    next = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + from + i + 1));
      const __m256i ids = _mm256_and_si256(word, ids_only);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(pm + from + i), ids);
      const __m256i ascends = _mm256_cmpgt_epi16(_mm256_xor_si256(_mm256_and_si256(next, ids_only), sign),
                                                 _mm256_xor_si256(ids, sign));
      wrong = _mm256_or_si256(wrong, _mm256_andnot_si256(ascends, first_of(hits - 1 - i)));
      if constexpr (Words::mask != 0xFFFF) {
        const __m256i is = first_of(hits - i);
        differences = _mm256_add_epi32(
            differences,
            _mm256_madd_epi16(_mm256_and_si256(_mm256_srai_epi16(word, 11), is), _mm256_set1_epi16(1)));
        wrong = _mm256_or_si256(
            wrong, _mm256_and_si256(_mm256_cmpgt_epi16(ids, _mm256_set1_epi16(pm_count - 1)), is));
      }
    };
    unpack(0);
    unpack(lanes);
    for (std::int32_t i = 2 * lanes; i < hits; i += lanes) unpack(i);
    set_time(e, static_cast<std::int32_t>(sums[e]) + 4 * sum_lanes(differences),
             static_cast<std::uint32_t>(hits));
  }
  return _mm256_testz_si256(wrong, wrong) != 0;
}
#else
template <unsigned boards, class Words>
bool FrameBuilder::assemble_usual() noexcept {
  return false;
}
#endif

template <unsigned boards, class Words>
void FrameBuilder::run() noexcept {
  join<boards>();
  if (!conditions_ && assemble_usual<boards, Words>()) return;
  std::uint32_t at = 0;
  for (std::uint32_t e = 0; e < built_.events; ++e) {
    first_[e] = at;
    assemble<boards, Words>(e, at);
  }
  first_[built_.events] = at;
}

template <class Words>
[[gnu::cold, gnu::noinline]] void FrameBuilder::assemble_unordered(std::uint32_t event,
                                                                   std::uint32_t& at) noexcept {
  std::uint32_t kept = 0;
  std::int64_t sum = 0;
  for (unsigned mask = mask_[event]; mask; mask &= mask - 1) {
    const Fragment& f = fragments_[members_[event][static_cast<unsigned>(std::countr_zero(mask))]];
    for (std::uint32_t i = 0; i < f.stored(); ++i) {
      const auto word = mgp::load<std::uint16_t>(base_ + f.hits + 2 * i);
      const PmId pm = pm_of<Words>(word);
      if (conditions_ && conditions_->masked[pm]) {
        ++built_.masked_hits;
        continue;
      }
      // A PM belongs to one board: a duplicate within the event is one within the fragment.
      if (in_event_[pm]) {
        ++built_.duplicate_hits;
        continue;
      }
      if (pm >= Words::pms || kept == max_event_hits)
        continue;  // the card refuses such packets, but memory may hold any bytes
      in_event_[pm] = true;
      pm_[at + kept++] = pm;
      sum += static_cast<std::int32_t>(f.time()) + Words::lsb(word) - (conditions_ ? conditions_->t0[pm] : 0);
    }
  }
  for (std::uint32_t i = at; i < at + kept; ++i) in_event_[pm_[i]] = false;
  std::sort(pm_.begin() + at, pm_.begin() + at + kept);
  set_time(event, static_cast<std::int32_t>(sum), kept);
  at += kept;
}

void FrameBuilder::sort_by_time() noexcept {
  if (built_.events > 512) {  // far above any real frame: avoids quadratic time on hostile input
    for (std::uint32_t i = 0; i < built_.events; ++i)
      keys_[i] = static_cast<std::uint32_t>(time_[i]) << 16 | i;
    std::sort(keys_.begin(), keys_.begin() + built_.events);
    for (std::uint32_t i = 0; i < built_.events; ++i) order_[i] = static_cast<std::uint16_t>(keys_[i]);
    return;
  }
  // Events are nearly sorted: insertion sort on (time, opening order).
  for (std::uint32_t i = 0; i < built_.events; ++i) {
    const std::uint32_t key = static_cast<std::uint32_t>(time_[i]) << 16 | i;
    std::uint32_t j = i;
    for (; j > 0 && keys_[j - 1] > key; --j) keys_[j] = keys_[j - 1];
    keys_[j] = key;
  }
  for (std::uint32_t i = 0; i < built_.events; ++i) order_[i] = static_cast<std::uint16_t>(keys_[i]);
}

template <class Words>
void FrameBuilder::run_lists(unsigned lists) noexcept {
  if (lists == 1)
    run<1, Words>();
  else if (lists == 4)
    run<4, Words>();
  else
    run<max_boards, Words>();
}

const BuiltFrame& FrameBuilder::build(std::span<const Segment> segments,
                                      const Conditions* conditions) noexcept {
  built_ = {};
  conditions_ = conditions;
  boards_ = static_cast<unsigned>(std::min<std::size_t>(segments.size(), max_boards));
  if (boards_ == 0) return built_;
  base_ = segments[0].at;
  const unsigned lists = lists_for(boards_);
  for (unsigned b = 0; b < lists; ++b) collect(b, b < boards_ ? segments[b] : Segment{base_, 0});
  fragments_.back() = {};
  if (wide_)
    run_lists<WideWords>(lists);
  else
    run_lists<NarrowWords>(lists);
  return finish();
}

const BuiltFrame& FrameBuilder::finish() noexcept {
  sort_by_time();
  built_.time = time_.data();
  built_.opened = opened_.data();
  built_.boards = mask_.data();
  built_.truncated = truncated_.data();
  built_.order = order_.data();
  built_.first = first_.data();
  built_.pm = pm_.data();
  return built_;
}

// The rows hold the result of the merging rule. Rows whose hits are in order take one pass over the words;
// the others take the path of fragments.
const BuiltFrame& FrameBuilder::build_merged(std::span<const std::byte> buffer,
                                             const Conditions* conditions) noexcept {
  return wide_ ? build_rows<WideWords>(buffer, conditions) : build_rows<NarrowWords>(buffer, conditions);
}

template <class Words>
const BuiltFrame& FrameBuilder::build_rows(std::span<const std::byte> buffer,
                                           const Conditions* conditions) noexcept {
  built_ = {};
  conditions_ = conditions;
  base_ = buffer.data();
  contract::FrameHeader header;
  std::memcpy(&header, base_, sizeof header);
  const auto extent = contract::MergedExtent::of(header.events, header.rows, header.hits, buffer.size());
  const std::byte* const words = base_ + extent.hits_at;
  const auto room = static_cast<std::uint32_t>(pm_.size() - vector_room);
  const std::uint32_t within = std::min(extent.hits, room), events = std::min(extent.rows, capacity_);
  constexpr unsigned boards = contract::merged_boards;
  fragments_.back() = {};
  std::uint32_t end = 0;  // of the row's hits
  std::uint32_t at = 0, event = 0;
  for (; event < events; ++event) {
    contract::MergedRow row;
    std::memcpy(&row, base_ + sizeof header + sizeof row * event, sizeof row);
    std::uint32_t hits = 0, most = 0, times = 0;
    for (unsigned b = 0; b < boards; ++b) {
      most = std::max<std::uint32_t>(most, row.hits[b]);
      hits += row.hits[b];
      times += row.hits[b] * (std::uint32_t{row.opened} + row.delay[b]);
    }
    if (!contract::sound_row(row.first, hits, most > max_fragment_hits, end, within)) break;
    end = row.first + hits;
    first_[event] = at;
    opened_[event] = row.opened;
    mask_[event] = static_cast<std::uint8_t>(row.boards & ((1u << boards) - 1));
    truncated_[event] = row.flags & contract::MergedRow::truncated;
    built_.fragments += static_cast<std::uint32_t>(std::popcount(mask_[event]));
    const std::byte* const from = words + sizeof(std::uint16_t) * row.first;
    HitUnpacker<Words> unpack;
    for (std::uint32_t i = 0; i < hits; i += max_fragment_hits) {
      if (i)
        unpack.seam |= pm_of<Words>(mgp::load<std::uint16_t>(from + 2 * i - 2)) >=
                       pm_of<Words>(mgp::load<std::uint16_t>(from + 2 * i));
      unpack(from + 2 * i, std::min(hits - i, std::uint32_t{max_fragment_hits}), &pm_[at + i]);
    }
    std::int32_t sum = static_cast<std::int32_t>(times) + 4 * row.sum;
    if (unpack.ascending() && (!conditions_ || correct(at, hits, sum))) {
      set_time(event, sum, hits);
      at += hits;
      continue;
    }
    auto offset = static_cast<std::uint32_t>(from - base_);
    for (unsigned b = 0; b < boards; ++b) {
      fragments_[b] =
          Fragment::of(offset, static_cast<std::uint16_t>(row.opened + row.delay[b]), row.hits[b]);
      members_[event][b] = static_cast<std::uint16_t>(b);
      offset += 2u * row.hits[b];
    }
    mask_[event] = (1u << boards) - 1;  // hits of boards outside the mask count too
    assemble_unordered<Words>(event, at);
    mask_[event] = static_cast<std::uint8_t>(row.boards & ((1u << boards) - 1));
  }
  built_.events = event;
  first_[event] = at;
  return finish();
}

}  // namespace nanet::trigger

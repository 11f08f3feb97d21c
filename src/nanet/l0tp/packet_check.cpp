// SPDX-License-Identifier: Apache-2.0
// Packet check: decoding, alignment, latencies and pairing.
#include <algorithm>

#include "nanet/l0tp/l0tp.hpp"
#include "nanet/trigger/decide/decide.hpp"

namespace nanet::l0tp {

PacketCheck::PacketCheck(const TruthTable* truth, readout::TimesReader* times, const MergerOptions& merge,
                         std::uint8_t source)
    : truth_(truth),
      times_(times),
      source_(source),
      merge_(merge),
      aligner_(merge.burst_frames),
      merger_(merge, [this](Position at, std::span<const std::byte> answer, Nanoseconds arrival,
                            bool behind) { merged(at, answer, arrival, behind); }),
      nodes_(merge.nodes),
      expected_before_(merge.nodes) {}

void PacketCheck::packet(std::span<const std::byte> datagram, Nanoseconds arrival,
                         const wire::Endpoint& from) noexcept {
  if (counters_.packets == 0) counters_.first_packet_ns.set(static_cast<std::uint64_t>(arrival));
  counters_.last_packet_ns.set(static_cast<std::uint64_t>(arrival));
  ++counters_.packets;
  counters_.bytes += datagram.size();
  const wire::mtp::Decoded decoded = wire::mtp::decode(datagram, primitives_.data(), source_);
  if (decoded.refusal != wire::mtp::Refusal::none) {
    ++counters_.bad[static_cast<std::size_t>(decoded.refusal)];
    return;
  }
  const Frame frame = decoded.header.frame;
  NodeCounters& node = nodes_[wire::node_of(frame, merge_.nodes)];
  note_source(node, from);
  node.last_frame.set(frame);
  node.last_packet.set(static_cast<std::uint64_t>(arrival));
  if (merge_.nodes == 1) return check(decoded, place(frame, aligner_.falls(frame) ? 1 : 0), arrival);
  const std::uint64_t duplicates = merger_.duplicates();
  merger_.take(datagram, frame, arrival);
  counters_.duplicates += merger_.duplicates() - duplicates;
}

// The address of an answer is that of its node. An address that has answered for another node means that L0TP
// and boards count different numbers of nodes.
void PacketCheck::note_source(NodeCounters& node, const wire::Endpoint& from) noexcept {
  const std::uint64_t source = std::uint64_t{from.address} << 16 | from.port;
  if (from.port == 0 || node.from == source) return;
  for (const NodeCounters& other : nodes_)
    if (other.from == source) {
      ++node.misdealt;
      return;
    }
  node.from.set(source);
}

// Next answer in the order of all nodes, or one behind the order.
void PacketCheck::merged(Position at, std::span<const std::byte> datagram, Nanoseconds arrival,
                         bool behind) noexcept {
  if (aligner_.bursts() == 0) burst_ = at.burst;
  if (behind && (at.burst != burst_ || aligner_.newest() - at.frame > Aligner::largest_fall)) {
    ++nodes_[wire::node_of(at.frame, merge_.nodes)].stale;
    return;
  }
  const std::uint64_t by = at.burst - burst_;
  burst_ = at.burst;
  const wire::mtp::Decoded decoded = wire::mtp::decode(datagram, primitives_.data(), source_);
  check(decoded, place(at.frame, by), arrival);
}

// Aligns a frame, and counts it and the frames passed over for their nodes.
Arrival PacketCheck::place(Frame frame, std::uint64_t bursts) noexcept {
  const Frame first = aligner_.first(), newest = aligner_.newest(), length = merge_.burst_frames;
  const Arrival arrived = aligner_.see(frame, bursts);
  const unsigned k = wire::node_of(frame, merge_.nodes);
  NodeCounters& node = nodes_[k];
  switch (arrived) {
    case Arrival::duplicate:
      return arrived;
    case Arrival::first:
      joined_ = frame;
      break;
    case Arrival::in_order:
      pass_over(newest + 1, frame);
      break;
    case Arrival::new_burst:
      // Without the length of a burst, its frames after the last answer are unknown.
      pass_over(newest + 1, length);
      expect(first, std::max(newest + 1, length));
      for (std::uint64_t skipped = 1; skipped < bursts; ++skipped) {
        pass_over(0, length);
        expect(0, length);
      }
      pass_over(0, frame);
      break;
    case Arrival::out_of_order:
      if (frame > first) {
        node.frames_missing.set(node.frames_missing - 1);
        if (node.frames_silent > node.frames_missing) node.frames_silent.set(node.frames_missing);
      } else {
        ++expected_before_[k];  // before the first frame, so not expected so far
      }
      break;
  }
  ++node.frames;
  return arrived;
}

// Counts the frames from `from` to `to` - 1 as missing.
void PacketCheck::pass_over(Frame from, Frame to) noexcept {
  for (Frame frame = from; frame < to; ++frame) {
    const unsigned k = wire::node_of(frame, merge_.nodes);
    ++nodes_[k].frames_missing;
    if (merger_.node(k).silent) ++nodes_[k].frames_silent;
  }
}

// Adds the frames from `from` to `to` - 1 to those expected.
void PacketCheck::expect(Frame from, Frame to) noexcept {
  for (unsigned k = 0; k < merge_.nodes; ++k) {
    const wire::Dealing share{k, merge_.nodes};
    const auto before = [&](Frame end) { return end ? share.frames(end - 1) : 0; };
    expected_before_[k] += before(to) - before(from);
  }
}

// Counts the frames that were sent before the first answer or after the last one, by their send times.
void PacketCheck::settle_ends() noexcept {
  if (times_ == nullptr) return;
  const auto sent = [this](std::uint64_t index) { return times_->at(index).first != 0; };
  const auto miss = [this](std::uint64_t index) {
    const auto frame = static_cast<Frame>(merge_.burst_frames ? index % merge_.burst_frames : index);
    pass_over(frame, frame + 1);
    expect(frame, frame + 1);
  };
  const bool any = aligner_.bursts() != 0;
  if (any)
    for (Frame frame = 0; frame < joined_; ++frame)
      if (sent(frame)) miss(frame);
  const std::uint64_t seen = any ? aligner_.run_frame(aligner_.newest()) + 1 : 0;
  std::uint64_t end = times_->frames();
  while (end > seen && !sent(end - 1)) --end;
  const std::uint64_t start = merge_.burst_frames || !any ? 0 : aligner_.run_frame(0);
  for (std::uint64_t index = seen; index < end; ++index) miss(index - start);
}

void PacketCheck::check(const wire::mtp::Decoded& decoded, Arrival arrived, Nanoseconds arrival) noexcept {
  if (arrived == Arrival::duplicate) {
    ++counters_.duplicates;
    return;
  }
  const Frame frame = decoded.header.frame;
  const bool late = decoded.header.sub_id == wire::mtp::sub_id_late;
  if (late) {
    ++counters_.frames_late;
    ++nodes_[wire::node_of(frame, merge_.nodes)].frames_late;
    if (late_frames_.size() < most_late_listed) late_frames_.push_back(aligner_.run_frame(frame));
  }
  const std::span<const wire::mtp::TimedPrimitive> primitives(primitives_.data(), decoded.count);
  std::array<std::uint32_t, 4> rings{};
  std::uint32_t calibration = 0;
  for (const wire::mtp::TimedPrimitive& primitive : primitives) {
    ++rings[primitive.id >> trigger::primitive_bit::rings_shift & 3];
    calibration += primitive.id >> 15;
  }
  counters_.primitives += primitives.size();
  if (calibration) counters_.calibration += calibration;
  for (std::size_t i = 0; i < rings.size(); ++i)
    if (rings[i]) counters_.rings[i] += rings[i];

  if (truth_ != nullptr) {
    if (arrived == Arrival::new_burst) pairing_.end_burst();
    const auto expected = truth_->at(aligner_.bursts() - 1, frame);
    if (arrived == Arrival::out_of_order)
      pairing_.out_of_order(expected.size());
    else
      pairing_.frame(frame, expected, primitives, late);
  }
  if (arrived == Arrival::out_of_order) ++counters_.out_of_order;
  if (times_ != nullptr) measure(frame, arrival);
}

void PacketCheck::measure(Frame frame, Nanoseconds arrival) noexcept {
  const readout::SendTimes sent = times_->at(aligner_.run_frame(frame));
  const auto first = static_cast<Nanoseconds>(sent.first), last = static_cast<Nanoseconds>(sent.last);
  // Without a send time, or with a packet sent after the answer, the latency is undefined.
  const bool have_first = first != 0 && first <= arrival, have_last = last != 0 && last <= arrival;
  if (have_first) from_first_.add(arrival - first);
  if (have_last) from_last_.add(arrival - last);
  if (!have_first || !have_last) ++counters_.latency_unknown;
}

void PacketCheck::finish() noexcept {
  merger_.flush();
  pairing_.end_burst();
  settle_ends();
  publish();
}

void PacketCheck::publish() noexcept {
  counters_.frames.set(aligner_.frames());
  std::uint64_t missing = 0;
  for (unsigned k = 0; k < merge_.nodes; ++k) {
    NodeCounters& node = nodes_[k];
    const wire::Dealing share{k, merge_.nodes};
    const Frame first = aligner_.first();
    const Frame current =
        aligner_.bursts() == 0 ? 0 : share.frames(aligner_.newest()) - (first ? share.frames(first - 1) : 0);
    node.frames_expected.set(expected_before_[k] + current);
    node.silent.set(merger_.node(k).silent ? 1 : 0);
    node.silences.set(merger_.node(k).silences);
    node.returns.set(merger_.node(k).returns);
    missing += node.frames_missing;
  }
  counters_.frames_missing.set(merge_.nodes == 1 ? aligner_.missing() : missing);
  counters_.bursts.set(aligner_.bursts());
  const Pairing::Counts& counts = pairing_.counts();
  counters_.expected.set(counts.expected);
  counters_.paired.set(counts.paired);
  for (std::size_t i = 0; i < counts.unpaired.size(); ++i) counters_.unpaired[i].set(counts.unpaired[i]);
  for (std::size_t i = 0; i < counts.unexpected.size(); ++i)
    counters_.unexpected[i].set(counts.unexpected[i]);
}

}  // namespace nanet::l0tp

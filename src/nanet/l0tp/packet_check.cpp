// SPDX-License-Identifier: Apache-2.0
// Packet check: decoding, alignment, latencies and pairing.
#include "nanet/l0tp/l0tp.hpp"
#include "nanet/trigger/decide/decide.hpp"

namespace nanet::l0tp {

PacketCheck::PacketCheck(const TruthTable* truth, readout::TimesReader* times, Frame burst_frames,
                         std::uint8_t source)
    : truth_(truth), times_(times), source_(source), aligner_(burst_frames) {}

void PacketCheck::packet(std::span<const std::byte> datagram, Nanoseconds arrival) noexcept {
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
  const Arrival arrived = aligner_.see(frame);
  if (arrived == Arrival::duplicate) {
    ++counters_.duplicates;
    return;
  }

  const bool late = decoded.header.sub_id == wire::mtp::sub_id_late;
  if (late) ++counters_.frames_late;
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
  pairing_.end_burst();
  publish();
}

void PacketCheck::publish() noexcept {
  counters_.frames.set(aligner_.frames());
  counters_.frames_missing.set(aligner_.missing());
  counters_.bursts.set(aligner_.bursts());
  const Pairing::Counts& counts = pairing_.counts();
  counters_.expected.set(counts.expected);
  counters_.paired.set(counts.paired);
  for (std::size_t i = 0; i < counts.unpaired.size(); ++i) counters_.unpaired[i].set(counts.unpaired[i]);
  for (std::size_t i = 0; i < counts.unexpected.size(); ++i)
    counters_.unexpected[i].set(counts.unexpected[i]);
}

}  // namespace nanet::l0tp

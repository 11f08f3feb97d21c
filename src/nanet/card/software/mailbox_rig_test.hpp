// SPDX-License-Identifier: Apache-2.0
// Test rig with a mailbox in host memory.
#pragma once

#include <cstdlib>
#include <memory>

#include "nanet/card/software/rig_test.hpp"
#include "nanet/contract/mailbox.hpp"

namespace nanet::card {

struct FreeLines {
  void operator()(std::byte* at) const { std::free(at); }
};
using Lines = std::unique_ptr<std::byte, FreeLines>;

inline Lines lines(std::size_t bytes) {
  bytes = (bytes + 63) / 64 * 64;
  Lines made(static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
  std::memset(made.get(), 0, bytes);
  return made;
}

class MailboxRig : public Rig {
 public:
  explicit MailboxRig(const ClopOptions& options = rig_options()) : Rig(options) {
    const auto shape = contract::MailboxShape::of(views[0].shape);
    input_ = lines(shape.input_bytes());
    answers_ = lines(shape.answer_bytes());
    mailbox = {shape, input_.get(), answers_.get()};
    EXPECT_TRUE(stream.use_mailboxes({&mailbox, 1}));
  }
  // Data of the event line of entry k; false: not valid.
  bool line(std::uint64_t k, contract::EventLine& out) const {
    const contract::Shape& shape = views[0].shape;
    const std::byte* const at =
        mailbox.input + contract::line_bytes * (static_cast<std::uint32_t>(k) & (shape.events - 1));
    auto* const to = reinterpret_cast<std::byte*>(&out);
    for (unsigned u = 0; u < contract::units_per_line; ++u)
      if (!contract::load_unit(at + contract::unit_bytes * u,
                               static_cast<std::uint32_t>(k / shape.events) + 1,
                               to + contract::unit_data_bytes * u))
        return false;
    return true;
  }
  // Segment of a board as a consumer reads it; empty: a unit has another mark.
  std::vector<std::byte> segment(std::uint64_t n, std::uint32_t buffer, unsigned board,
                                 std::uint32_t bytes) const {
    std::vector<std::byte> out(contract::units_for(bytes) * contract::unit_data_bytes);
    for (std::uint32_t u = 0; u < contract::units_for(bytes); ++u)
      if (!contract::load_unit(
              mailbox.input + mailbox.shape.segment(buffer, board) + contract::unit_bytes * u,
              contract::mailbox_mark(n), out.data() + contract::unit_data_bytes * u))
        return {};
    out.resize(bytes);
    return out;
  }
  // Answers through the mailbox only.
  void whisper(const Event& e, std::uint32_t bytes = 8) {
    std::vector<std::byte> answer(bytes);
    wire::mtp::encode(answer.data(), e.frame, nullptr, 0);
    contract::put_answer(mailbox, n_of(e), e.buffer, answer.data(), bytes);
  }

  contract::Mailbox mailbox;

 private:
  Lines input_, answers_;
};

}  // namespace nanet::card

// SPDX-License-Identifier: Apache-2.0
// Raw card: software datapath over queues of Ethernet frames. The card's thread, or reading threads, take
// frames and verify their headers and checksums; UDP payloads pass to the receiver.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nanet/card/raw/frame_source.hpp"
#include "nanet/card/software/software_card.hpp"

namespace nanet::card {

class RawCard : public SoftwareCard {
 public:
  RawCard(std::string name, OpenRawPort open);
  ~RawCard() override;

  std::string_view name() const noexcept override { return name_; }
  std::array<std::uint64_t, wire::not_mgp_count> not_mgp() const noexcept override;
  std::vector<std::pair<std::string, double>> figures() const override;

 protected:
  std::unique_ptr<SoftwarePort> open_port(const ClopOptions& options, std::uint8_t number,
                                          std::vector<wire::Endpoint>& local) override;

 private:
  class Port;
  std::string name_;
  OpenRawPort open_;
  std::array<stats::Counter, wire::not_mgp_count> not_mgp_;
};

}  // namespace nanet::card

// SPDX-License-Identifier: Apache-2.0
#include "nanet/gateware/driver.hpp"

#include "nanet/card/software/rig_test.hpp"
#include "nanet/contract/memory.hpp"
#include "nanet/gateware/fake_bus_test.hpp"
#include "nanet/gateware/sim_bus.hpp"

namespace nanet::gateware {
namespace {

using contract::EventType;

// View of a device in gather mode packets, without memory: the driver refuses it before any access.
contract::View of_packets(const card::ClopOptions& options) {
  contract::View view;
  view.shape.gather = contract::Gather::packets;
  view.shape.packets = options.packets;
  view.shape.slot_bytes = static_cast<std::uint32_t>((options.rules.max_payload + 15) / 16 * 16);
  view.shape.buffers = view.shape.descriptors = 4;
  return view;
}

TEST(Driver, RefusesBuffersBeyondTheRegister) {
  FakeBus bus;
  Driver driver(bus);
  card::ClopOptions options;
  options.gather = contract::Gather::packets;
  options.rules.max_payload = 8192;  // 2048 of them are 16 MiB
  for (const std::uint32_t packets : {2048u, 2049u, 4096u}) {
    options.packets = packets;
    try {
      driver.open(options, {of_packets(options)}, 0, {});
      ADD_FAILURE() << packets << " packets are taken";
    } catch (const std::invalid_argument& e) {
      EXPECT_EQ(e.what(),
                "packets = " + std::to_string(packets) + " with max_payload = 8192 needs buffers of " +
                    std::to_string(packets * 8192) +
                    " bytes: the gateware card supports less than 16 MiB per buffer; take at most 2047");
    }
  }
  options.packets = 2047;
  driver.open(options, {of_packets(options)}, 0, {});
  EXPECT_EQ(bus.registers[offsetof(nanet_regs_t, buffer_bytes)], 2047u * 8192);
}

TEST(Driver, TheLargestBufferIsTheOneItNames) {
  FakeBus bus;
  Driver driver(bus);
  card::ClopOptions options;
  options.gather = contract::Gather::packets;
  options.rules.max_payload = 8972;
  options.packets = 1869;  // 1869 packets of 8976 bytes in lines of 64: 16 776 192; one more gives 16 785 152
  driver.open(options, {of_packets(options)}, 0, {});
  EXPECT_EQ(bus.registers[offsetof(nanet_regs_t, buffer_bytes)], 16'776'192);
  options.packets = 1870;
  try {
    driver.open(options, {of_packets(options)}, 0, {});
    ADD_FAILURE() << "1870 packets are taken";
  } catch (const std::invalid_argument& e) {
    EXPECT_TRUE(std::string(e.what()).ends_with("take at most 1869")) << e.what();
  }
}

// Simulated card and bus, which outlive the killed process.
class LeftRunning : public testing::Test {
 protected:
  LeftRunning() {
    clop.rules.boards = 0xF;
    clop.timeout = 30'000;
    clop.deadline = 100'000;
    clop.destinations = {{0x0A000003, 58914}};
    options.address = {mac_of(here.address), here.address};
    options.log2_page = 12;
  }
  static contract::Shape shape() {
    contract::Shape s;
    s.segment_bytes = 2048;
    s.buffers = s.descriptors = 128;
    s.events = 4 * s.buffers;
    return s;
  }
  void datagram(BoardId board, std::span<const std::byte> payload) {
    std::vector<std::byte> frame(wire::udp_frame_overhead + payload.size());
    wire::build_udp_frame(frame.data(), {0x0A000002, here.port}, here, payload);
    model.receive(board & 1, frame);
  }
  // Begin of a burst and part of its first frame.
  void traffic(std::uint8_t burst, BoardId boards) {
    for (BoardId b = 0; b < 4; ++b) datagram(b, card::build_marker(wire::mgp::flag::sob, b, 0, 0, burst));
    for (BoardId b = 0; b < boards; ++b) datagram(b, card::build({.board = b, .burst = burst}, 1));
    model.run(4000);
  }
  static std::vector<EventType> events(const contract::View& view) {
    std::vector<EventType> types;
    contract::Event e;
    while (contract::poll_event(view, types.size(), e) == contract::Poll::event)
      types.push_back(static_cast<EventType>(e.type));
    return types;
  }

  const wire::Endpoint here{0x0A000001, 58913};
  card::ClopOptions clop;
  DriverOptions options;
  SimMemory memory;
  sim::Model model{memory};
  SimBus bus{model, memory};
};

TEST_F(LeftRunning, IsStoppedAndStartsAgain) {
  const contract::Memory before(shape()), after(shape());
  // Driver of a killed process: close() runs only at the end.
  Driver killed(bus);
  killed.open(clop, {before.view()}, 0, options);
  killed.start();
  traffic(7, 3);
  EXPECT_EQ(events(before.view()), std::vector{EventType::burst_begins});

  Driver driver(bus);
  traffic(8, 4);  // the card is still running
  EXPECT_EQ(driver.read(offsetof(nanet_regs_t, status)) & NANET_REGS__STATUS__STOPPED_bm, 0);
  ASSERT_NO_THROW(driver.open(clop, {after.view()}, 0, options));
  driver.start();
  const std::size_t written = events(before.view()).size();
  // Earlier counts do not appear in the counters of the new process.
  const auto frames_in = [&] { return driver.counters().at(offsetof(nanet_regs_t, frames.frames_in)); };
  ASSERT_TRUE(driver.read_counters());
  EXPECT_EQ(driver.counters().at(offsetof(nanet_regs_t, frames.packets_in)), 0);
  EXPECT_EQ(frames_in(), 0);

  traffic(9, 4);
  EXPECT_EQ(events(after.view()), (std::vector{EventType::burst_begins, EventType::receive_done}));
  EXPECT_EQ(events(before.view()).size(), written);
  ASSERT_TRUE(driver.read_counters());
  EXPECT_EQ(driver.counters().at(offsetof(nanet_regs_t, frames.packets_in)), 8);
  EXPECT_EQ(frames_in(), 1);
}

}  // namespace
}  // namespace nanet::gateware

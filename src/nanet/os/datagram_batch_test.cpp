// SPDX-License-Identifier: Apache-2.0
#include "nanet/os/datagram_batch.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace nanet::os {
namespace {

class Batches : public testing::Test {
 protected:
  void send(const std::string& text) {
    ASSERT_EQ(::send(sender.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  static std::string text(const DatagramBatch& batch, unsigned i) {
    const auto bytes = batch.bytes(i);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  Fd receiver = open_udp_receiver({0x7F000001, 0});
  Fd sender = open_udp_sender(local_endpoint(receiver.get()));
};

TEST_F(Batches, GiveDatagramsWithArrivalAndSource) {
  DatagramBatch batch(3, 64);
  EXPECT_EQ(batch.read(receiver.get()), 0u);
  for (const char* each : {"a", "", "ccc", "dd"}) send(each);
  ASSERT_EQ(batch.read(receiver.get()), 3u);
  EXPECT_TRUE(batch.full());
  EXPECT_EQ(text(batch, 0), "a");
  EXPECT_EQ(text(batch, 1), "");
  EXPECT_EQ(text(batch, 2), "ccc");
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_NE(batch.info(i).realtime_ns, 0);
    EXPECT_EQ(batch.source(i).port, local_endpoint(sender.get()).port);
  }
  ASSERT_EQ(batch.read(receiver.get()), 1u);
  EXPECT_FALSE(batch.full());
  EXPECT_EQ(text(batch, 0), "dd");
  EXPECT_NE(batch.info(0).realtime_ns, 0);
  EXPECT_EQ(batch.source(0).port, local_endpoint(sender.get()).port);
}

TEST_F(Batches, CutLongDatagrams) {
  DatagramBatch batch(2, 8);
  send("0123456789");
  send("next");
  ASSERT_EQ(batch.read(receiver.get()), 2u);
  EXPECT_EQ(text(batch, 0), "01234567");
  EXPECT_EQ(text(batch, 1), "next");
}

TEST_F(Batches, AreEmptyAfterAnError) {
  DatagramBatch batch(2, 8);
  send("a");
  ASSERT_EQ(batch.read(receiver.get()), 1u);
  EXPECT_EQ(batch.read(-1), 0u);
}

}  // namespace
}  // namespace nanet::os

// SPDX-License-Identifier: Apache-2.0
// Tests of the recorder: file series, size limits, full ring and full disk.
#include "nanet/trigger/live/recorder.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>

#include "nanet/trigger/traffic_test.hpp"
#include "nanet/wire/pcap.hpp"

namespace nanet::trigger {
namespace {

namespace fs = std::filesystem;

class RecorderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "nanet-record-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    options_.folder = (folder_ / "new" / "raw").string();
    options_.ring_bytes = 1 << 20;
    options_.to = {0x0A000001, 4321};
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<fs::path> files(const std::string& prefix) const {
    std::vector<fs::path> out;
    for (const auto& e : fs::directory_iterator(options_.folder))
      if (e.path().filename().string().starts_with(prefix)) out.push_back(e.path());
    std::sort(out.begin(), out.end());
    return out;
  }
  // Payloads of all files of a kind, in order.
  std::vector<Bytes> read(const std::string& prefix) const {
    std::vector<Bytes> out;
    for (const auto& path : files(prefix)) {
      wire::PcapReader reader(path.string());
      wire::PcapRecord record;
      while (reader.next(record)) {
        const auto frame = wire::parse_udp_frame(record.frame, record.original, 4321);
        EXPECT_EQ(frame.reason, wire::NotMgp::none);
        out.emplace_back(frame.payload.begin(), frame.payload.end());
      }
      EXPECT_FALSE(reader.truncated());
    }
    return out;
  }

  fs::path folder_;
  RecordOptions options_;
};

Bytes random_bytes(std::mt19937& random, std::size_t size) {
  Bytes out(size);
  for (auto& b : out) b = static_cast<std::byte>(random());
  return out;
}

TEST_F(RecorderTest, KeepsEveryPacketInOrderAndBadOnesApart) {
  std::mt19937 random(1);
  std::vector<Bytes> good, bad;
  options_.ring_bytes = 8 << 20;
  Recorder recorder(options_);
  recorder.burst_began(7);
  for (unsigned i = 0; i < 3000; ++i) {
    if (i == 1000) recorder.burst_began(300);
    const bool refused = i % 10 == 3;
    auto& to = refused ? bad : good;
    to.push_back(random_bytes(random, random() % 1500));
    while (recorder.ring_full) FAIL();
    recorder.packet(to.back(), refused, 1000 + i);
    if (i % 200 == 199) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  recorder.stop();
  EXPECT_EQ(recorder.packets, good.size());
  EXPECT_EQ(recorder.bad_packets, bad.size());
  EXPECT_EQ(recorder.ring_full + recorder.write_failed, 0u);
  EXPECT_EQ(read("raw-"), good);
  EXPECT_EQ(read("bad-"), bad);
  const auto raw = files("raw-");
  ASSERT_EQ(raw.size(), 2u);  // the first file was empty when its burst began
  EXPECT_EQ(raw[0].filename(), "raw-000001-burst7.pcap");
  EXPECT_EQ(raw[1].filename(), "raw-000002-burst300.pcap");
  EXPECT_EQ(recorder.trouble(), "");
}

TEST_F(RecorderTest, CountsPacketsBeyondTheRing) {
  options_.ring_bytes = 1 << 18;
  Recorder recorder(options_);
  const Bytes packet(60'000);
  constexpr unsigned many = 5000;
  for (unsigned i = 0; i < many; ++i) recorder.packet(packet, false, i);
  recorder.stop();
  EXPECT_GT(recorder.ring_full, 0u);
  EXPECT_EQ(recorder.packets + recorder.ring_full, many);
  EXPECT_EQ(read("raw-").size(), recorder.packets);
}

TEST_F(RecorderTest, IsARingOfFiles) {
  options_.file_bytes = 64 << 10;
  options_.limit_bytes = 2 << 20;
  options_.ring_bytes = 16 << 20;  // holds all packets, however slow the disk
  const Bytes packet(1000, std::byte{1});
  const auto fill = [&](unsigned count, std::uint8_t mark) {
    Recorder recorder(options_);
    Bytes p = packet;
    p[0] = std::byte{mark};
    for (unsigned i = 0; i < count; ++i) {
      recorder.packet(p, false, i);
      recorder.packet(p, true, i);
    }
    recorder.stop();
    EXPECT_EQ(recorder.packets + recorder.bad_packets, 2 * count);
    return recorder.files_removed + 0;
  };
  EXPECT_EQ(fill(200, 1), 0u);
  const auto before = files("raw-");
  EXPECT_GT(fill(4000, 2), 0u);
  const auto after = files("raw-");
  EXPECT_EQ(std::count(after.begin(), after.end(), before.front()), 0);  // oldest file, from an earlier run
  std::uintmax_t raw = 0, bad = 0;
  for (const auto& f : after) raw += fs::file_size(f);
  for (const auto& f : files("bad-")) bad += fs::file_size(f);
  EXPECT_LE(raw, options_.limit_bytes - options_.limit_bytes / 8);
  EXPECT_GT(raw, options_.limit_bytes / 2);
  EXPECT_LE(bad, options_.limit_bytes / 8);
  for (const auto& p : read("raw-")) EXPECT_EQ(p[0], std::byte{2});
}

TEST_F(RecorderTest, ContinuesWithoutADisk) {
  Recorder recorder(options_);
  fs::remove_all(options_.folder);
  recorder.burst_began(1);
  const Bytes packet(1400);
  for (unsigned i = 0; i < 100; ++i) recorder.packet(packet, i % 2, i);
  recorder.stop();
  EXPECT_EQ(recorder.packets + recorder.bad_packets + recorder.write_failed, 100u);
  EXPECT_GE(recorder.write_failed, 50u);
  EXPECT_NE(recorder.trouble(), "");
}

TEST_F(RecorderTest, ReportsErrorsAtOnce) {
  options_.folder = "/proc/nowhere";
  try {
    Recorder recorder(options_);
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("/proc/nowhere"), std::string::npos);
  }
}

}  // namespace
}  // namespace nanet::trigger

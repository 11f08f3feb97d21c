// SPDX-License-Identifier: Apache-2.0
// Tests of pcap files: round trips, both byte orders and resolutions, broken files.
#include "nanet/wire/pcap.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace nanet::wire {
namespace {

using Bytes = std::vector<std::byte>;

class Pcap : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "nanet-pcap-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = (folder_ / "capture.pcap").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void put(const Bytes& bytes) const {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::string error_of_reading() const {
    try {
      PcapReader reader(path_);
    } catch (const std::exception& e) {
      return e.what();
    }
    return "";
  }

  std::filesystem::path folder_;
  std::string path_;
};

void add32(Bytes& bytes, std::uint32_t value, bool big_endian) {
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(value >> 8 * (big_endian ? 3 - i : i)));
}
Bytes capture(std::uint32_t magic, bool big_endian, std::uint32_t link_type = 1) {
  Bytes bytes;
  add32(bytes, magic, big_endian);
  add32(bytes, big_endian ? 0x00020004 : 0x00040002, big_endian);
  for (const std::uint32_t value : {0u, 0u, 65535u, link_type}) add32(bytes, value, big_endian);
  return bytes;
}
void add_record(Bytes& bytes, bool big_endian, std::uint32_t captured, std::uint32_t original,
                std::uint32_t fraction = 789) {
  for (const std::uint32_t value : {1'700'000'000u, fraction, captured, original})
    add32(bytes, value, big_endian);
  for (std::uint32_t i = 0; i < captured; ++i) bytes.push_back(static_cast<std::byte>(i));
}

TEST_F(Pcap, RoundTrip) {
  const std::int64_t start = 1'700'000'000'123'456'789;
  constexpr std::size_t count = 3000;  // several times the writer's buffer
  {
    PcapWriter writer(path_);
    for (std::size_t i = 0; i < count; ++i) {
      const Bytes payload(i % 1472, static_cast<std::byte>(i));
      writer.write_udp(start + static_cast<std::int64_t>(i), {0x7F000001, 5}, {0x7F000001, 58913}, payload);
    }
    writer.write(start, Bytes(60, std::byte{7}));
    writer.close();
    EXPECT_THROW(writer.write(start, Bytes(60)), std::logic_error);
  }
  PcapReader reader(path_);
  EXPECT_EQ(reader.bytes(), std::filesystem::file_size(path_));
  for (int round = 0; round < 2; ++round) {
    PcapRecord record;
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(reader.next(record));
      ASSERT_EQ(record.time_ns, start + static_cast<std::int64_t>(i));
      ASSERT_EQ(record.original, record.frame.size());
      const UdpFrame udp = parse_udp_frame(record.frame, record.original, 58913);
      ASSERT_EQ(name(udp.reason), "none");
      ASSERT_EQ(Bytes(udp.payload.begin(), udp.payload.end()), Bytes(i % 1472, static_cast<std::byte>(i)));
    }
    ASSERT_TRUE(reader.next(record));
    EXPECT_EQ(record.frame.size(), 60u);
    EXPECT_FALSE(reader.next(record));
    EXPECT_FALSE(reader.truncated());
    reader.rewind();
  }
}

TEST_F(Pcap, DestructorFlushes) {
  {
    PcapWriter(path_).write(5, Bytes(60));
  }
  PcapReader reader(path_);
  PcapRecord record;
  EXPECT_TRUE(reader.next(record));
}

TEST_F(Pcap, ReadsBothByteOrdersAndResolutions) {
  for (const bool big_endian : {false, true}) {
    for (const bool nanoseconds : {false, true}) {
      Bytes bytes = capture(nanoseconds ? 0xA1B23C4D : 0xA1B2C3D4, big_endian);
      add_record(bytes, big_endian, 5, 9);
      put(bytes);
      PcapReader reader(path_);
      PcapRecord record;
      ASSERT_TRUE(reader.next(record));
      EXPECT_EQ(record.time_ns, 1'700'000'000'000'000'000 + (nanoseconds ? 789 : 789'000));
      EXPECT_EQ(record.frame.size(), 5u);
      EXPECT_EQ(record.frame[4], std::byte{4});
      EXPECT_EQ(record.original, 9u);
      EXPECT_FALSE(reader.next(record));
    }
  }
}

TEST_F(Pcap, FileCutOffInARecordEndsBeforeIt) {
  Bytes bytes = capture(0xA1B2C3D4, false);
  add_record(bytes, false, 20, 20);
  const std::size_t first = bytes.size();
  add_record(bytes, false, 20, 20);
  for (std::size_t size = first; size <= bytes.size(); ++size) {
    put(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)));
    PcapReader reader(path_);
    PcapRecord record;
    EXPECT_TRUE(reader.next(record));
    EXPECT_EQ(reader.next(record), size == bytes.size()) << size;
    EXPECT_FALSE(reader.next(record));
    EXPECT_EQ(reader.truncated(), size != first && size != bytes.size()) << size;
    reader.rewind();
    EXPECT_FALSE(reader.truncated());
    EXPECT_TRUE(reader.next(record));
  }
}

TEST_F(Pcap, GarbageRecordLengthEndsTheFile) {
  for (const std::uint32_t length : {0xFFFFFFFFu, 0xFFFFFFF0u, 0x7FFFFFFFu, 262'145u}) {
    Bytes bytes = capture(0xA1B2C3D4, false);
    for (const std::uint32_t value : {0u, 0u, length, length}) add32(bytes, value, false);
    bytes.resize(bytes.size() + 300'000);
    put(bytes);
    PcapReader reader(path_);
    PcapRecord record;
    EXPECT_FALSE(reader.next(record)) << length;
    EXPECT_TRUE(reader.truncated());
    EXPECT_FALSE(reader.next(record));
  }
}

TEST_F(Pcap, ReportsTheFaultOfAFile) {
  EXPECT_THROW(PcapReader{path_}, std::system_error);  // missing
  EXPECT_NE(error_of_reading().find(path_), std::string::npos);
  EXPECT_THROW(PcapReader{folder_.string()}, std::runtime_error);
  put({});
  EXPECT_NE(error_of_reading().find("not a pcap"), std::string::npos);
  put(Bytes(100, std::byte{0x55}));
  EXPECT_NE(error_of_reading().find("not a pcap"), std::string::npos);
  put(capture(0x0A0D0D0A, false));
  EXPECT_NE(error_of_reading().find("pcapng"), std::string::npos);
  put(capture(0xA1B2C3D4, false, 113));
  EXPECT_NE(error_of_reading().find("link type 113"), std::string::npos);
  EXPECT_NE(error_of_reading().find(path_), std::string::npos);
  put(capture(0xA1B2C3D4, false, 0xF4000001));  // Ethernet with a frame check sequence of 4 bytes
  EXPECT_EQ(error_of_reading(), "");
}

TEST_F(Pcap, DiskFullIsReported) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  {
    PcapWriter writer("/dev/full");
    writer.write(0, Bytes(60));
    try {
      writer.close();
      FAIL() << "close() hid the error";
    } catch (const std::system_error& e) {
      EXPECT_EQ(e.code(), std::errc::no_space_on_device);
      EXPECT_NE(std::string(e.what()).find("/dev/full"), std::string::npos);
    }
    EXPECT_NO_THROW(writer.close());
  }
  PcapWriter writer("/dev/full");
  EXPECT_THROW(for (int i = 0; i < 100; ++i) writer.write(0, Bytes(60'000)), std::system_error);
}  // the destructor does not throw

TEST_F(Pcap, SeveralFilesAreReadAsOneInTheirOrder) {
  const auto path = [&](const char* name) { return (folder_ / name).string(); };
  {
    PcapWriter later(path("a")), none(path("b")), earlier(path("c"));
    for (int i = 0; i < 3; ++i) later.write(1000 + i, Bytes(60, std::byte{1}));
    for (int i = 0; i < 2; ++i) earlier.write(i, Bytes(60, std::byte{2}));
  }
  std::filesystem::resize_file(path("a"),
                               std::filesystem::file_size(path("a")) - 1);  // ends in its third record
  PcapSeries series({path("a"), path("b"), path("c")});
  EXPECT_EQ(series.bytes(), std::filesystem::file_size(path("a")) + std::filesystem::file_size(path("b")) +
                                std::filesystem::file_size(path("c")));
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(series.truncated());
    PcapRecord record;
    for (const std::int64_t time : {1000, 1001, 0, 1}) {
      ASSERT_TRUE(series.next(record));
      EXPECT_EQ(record.time_ns, time);
      EXPECT_EQ(record.frame[0], std::byte{time < 1000 ? std::uint8_t{2} : std::uint8_t{1}});
    }
    EXPECT_FALSE(series.next(record));
    EXPECT_FALSE(series.next(record));
    EXPECT_EQ(series.truncated_files(), std::vector<std::size_t>{0});
    series.rewind();
  }
  EXPECT_THROW(PcapSeries({path("a"), path("missing")}), std::system_error);
  PcapSeries nothing({});
  PcapRecord record;
  EXPECT_FALSE(nothing.next(record));
}

TEST_F(Pcap, UncreatableFileIsReported) {
  EXPECT_THROW(PcapWriter((folder_ / "no" / "such" / "folder").string()), std::system_error);
  PcapWriter writer(path_);
  EXPECT_THROW(writer.write(0, Bytes(262'145)), std::length_error);
}

}  // namespace
}  // namespace nanet::wire

// SPDX-License-Identifier: Apache-2.0
// Tests of the shared array of send times: byte layout and reader.
#include "nanet/readout/times_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

namespace nanet::readout {
namespace {

class TimesFile : public testing::Test {
 protected:
  void SetUp() override {
    path = testing::TempDir() + "nanet-times-" + std::to_string(getpid());
    std::filesystem::remove(path);
  }
  void TearDown() override { std::filesystem::remove(path); }
  std::vector<std::uint64_t> words() const {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
    std::vector<std::uint64_t> values(bytes.size() / 8);
    std::memcpy(values.data(), bytes.data(), values.size() * 8);
    return values;
  }
  std::string path;
};

TEST_F(TimesFile, IsSixteenBytesPerFrameFirstThenLast) {
  TimesWriter writer(path, 3);
  EXPECT_EQ(std::filesystem::file_size(path), 48u);
  EXPECT_EQ(words(), (std::vector<std::uint64_t>{0, 0, 0, 0, 0, 0}));
  writer.first(0, 100);
  writer.last(0, 110);
  writer.packet(2, 300);
  writer.packet(2, 320);
  writer.first(3, 999);  // beyond the file: ignored
  EXPECT_EQ(words(), (std::vector<std::uint64_t>{100, 110, 0, 0, 300, 320}));
}

TEST_F(TimesFile, ListsBoardsWhoseCallEndedLateAfterTheFirstSend) {
  TimesWriter writer(path, 3, 200);
  writer.first(0, 1000);
  writer.sent(0, 0, 1200);  // at the limit
  writer.sent(0, 1, 1201);
  writer.first(1, 2000);
  writer.sent(1, 3, 2000 + (Nanoseconds{1} << 33));
  writer.sent(3, 0, 9000);  // beyond the file
  ASSERT_EQ(writer.late().size(), 2u);
  EXPECT_EQ(writer.late()[0].frame, 0u);
  EXPECT_EQ(writer.late()[0].board, 1u);
  EXPECT_EQ(writer.late()[0].after_ns, 201u);
  EXPECT_EQ(writer.late()[1].frame, 1u);
  EXPECT_EQ(writer.late()[1].after_ns, UINT32_MAX);
  for (std::size_t i = 2; i <= TimesWriter::most_late_listed; ++i) writer.sent(0, 2, 5000);
  EXPECT_EQ(writer.late().size(), TimesWriter::most_late_listed);
}

TEST_F(TimesFile, WithoutALimitNothingIsListed) {
  TimesWriter writer(path, 1);
  writer.first(0, 1000);
  writer.sent(0, 0, 1'000'000'000);
  EXPECT_TRUE(writer.late().empty());
}

TEST_F(TimesFile, AnOldOneIsZeroedAndTakesTheNewSize) {
  {
    TimesWriter old(path, 5);
    for (std::uint64_t f = 0; f < 5; ++f) old.packet(f, 7);
  }
  TimesReader reader(path);
  reader.refresh();
  EXPECT_EQ(reader.at(4).first, 7u);
  {
    TimesWriter writer(path, 2);
    EXPECT_EQ(words(), (std::vector<std::uint64_t>{0, 0, 0, 0}));
    writer.packet(1, 9);
  }
  reader.refresh();  // remaps: the size has changed
  EXPECT_EQ(reader.at(1).last, 9u);
  EXPECT_EQ(reader.at(4).first, 0u);
}

TEST_F(TimesFile, ReaderSeesWhatIsWrittenOnceTheFileIsThere) {
  TimesReader reader(path);
  reader.refresh();
  EXPECT_FALSE(reader.mapped());
  EXPECT_EQ(reader.at(0).first, 0u);
  TimesWriter writer(path, 4);
  reader.refresh();
  ASSERT_TRUE(reader.mapped());
  writer.first(1, 50);
  EXPECT_EQ(reader.at(1).first, 50u);
  EXPECT_EQ(reader.at(1).last, 0u);
  EXPECT_EQ(reader.at(4).first, 0u);
}

TEST_F(TimesFile, UnwritableFilesAreReported) {
  try {
    TimesWriter writer("/nonexistent/folder/times", 4);
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
    EXPECT_NE(std::string(error.what()).find("/nonexistent/folder/times"), std::string::npos);
  }
  EXPECT_THROW(TimesWriter("/dev/null", 4), std::system_error);
}

}  // namespace
}  // namespace nanet::readout

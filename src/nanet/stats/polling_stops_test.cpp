// SPDX-License-Identifier: Apache-2.0
// Tests of the stops of polling threads: limits of length and work, at constructed times.
#include "nanet/stats/polling_stops.hpp"

#include <gtest/gtest.h>

namespace nanet::stats {
namespace {

constexpr std::size_t over_50us = 1;

TEST(PollingStops, AreIntervalsAboveTheLeast) {
  PollingStops stops("read 0", 3);
  stops.time(1'000'000);  // starts the record: the time before it is not watched
  stops.time(1'050'000);
  stops.time(1'100'001);
  const GapRecord& record = stops.record();
  ASSERT_EQ(record.listed().size(), 1u);
  EXPECT_EQ(record.listed()[0].begin, 1'050'000);
  EXPECT_EQ(record.listed()[0].end, 1'100'001);
  EXPECT_EQ(record.longest(), 50'001);
  EXPECT_EQ(record.elapsed(), 100'001);
  EXPECT_DOUBLE_EQ(record.share_above(over_50us), 50'001.0 / 100'001);
}

TEST(PollingStops, AnIntervalWithMoreWorkThanTheBoundIsNone) {
  PollingStops stops("card", -1);
  stops.time(1'000);
  stops.worked(5);
  stops.worked(3);
  stops.time(101'000);  // at the bound
  stops.worked(5);
  stops.worked(4);
  stops.time(301'000);  // above it
  stops.worked(PollingStops::unbounded);
  stops.time(10'301'000);
  ASSERT_EQ(stops.record().listed().size(), 1u);
  EXPECT_EQ(stops.record().listed()[0].begin, 1'000);
  EXPECT_EQ(stops.record().elapsed(), 100'000) << "intervals above the bound are not watched";
  EXPECT_DOUBLE_EQ(stops.record().share_above(over_50us), 1);
  stops.time(10'401'000);  // the work of an interval does not count in the next
  ASSERT_EQ(stops.record().listed().size(), 2u);
  EXPECT_EQ(stops.record().listed()[1].begin, 10'301'000);
}

TEST(PollingThreads, TheCardsThreadIsTheFirst) {
  PollingThreads threads(5);
  PollingStops& card = threads.card();
  PollingStops& send = threads.add("send", -1);
  for (int i = 0; i < 100; ++i) threads.add("read " + std::to_string(i), i);
  EXPECT_EQ(&threads.all()[0], &card);
  EXPECT_EQ(&threads.all()[1], &send);
  EXPECT_EQ(card.name(), "card");
  EXPECT_EQ(card.cpu(), 5);
  EXPECT_EQ(threads.all()[101].name(), "read 99");
}

}  // namespace
}  // namespace nanet::stats

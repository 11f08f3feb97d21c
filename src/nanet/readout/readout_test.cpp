// SPDX-License-Identifier: Apache-2.0
// Tests of whole runs of the emulated boards: markers, counts, sequences, send times.
#include "nanet/readout/readout.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>

#include "nanet/os/clock.hpp"
#include "nanet/os/socket.hpp"
#include "nanet/readout/capture.hpp"

namespace nanet::readout {
namespace {

using Bytes = std::vector<std::byte>;
namespace mgp = wire::mgp;

struct Received {
  mgp::Checked checked;
  Bytes bytes;
};

class ReadoutRun : public testing::Test {
 protected:
  ReadoutRun() : socket(os::open_udp_receiver({0x7F000001, 0}, {.buffer_bytes = 64 << 20})) {
    options.nodes = {{os::local_endpoint(socket.get())}};
    options.pool_frames = 40;
    options.burst_frames = 100;
    options.speed = 1.0;
  }
  // Runs to the end and returns all received packets in order. stop_after: packets received before the stop
  // request.
  std::vector<Received> run(std::size_t stop_after = SIZE_MAX) {
    Readout readout(options);
    readout.start();
    std::vector<Received> all;
    Bytes bytes(65536);
    mgp::Rules rules;
    rules.boards = options.pack.merged ? 0 : 0xF;
    while (true) {
      const bool done = !readout.running();
      const ssize_t n = recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n >= 0) {
        all.push_back({mgp::validate({bytes.data(), static_cast<std::size_t>(n)}, rules),
                       Bytes(bytes.data(), bytes.data() + n)});
        if (all.size() == stop_after) readout.request_stop();
      } else if (done) {
        break;
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    }
    readout.join();
    packets = readout.packets();
    messages = readout.messages();
    const ReadoutCounters counted = readout.counters();
    events = counted.events;
    fragments = counted.fragments;
    frames = counted.frames;
    bursts = counted.bursts;
    faults = counted.faults;
    return all;
  }

  os::Fd socket;
  ReadoutOptions options;
  std::uint64_t packets = 0, messages = 0, events = 0, fragments = 0, frames = 0, bursts = 0;
  std::array<std::uint64_t, fault_count> faults{};
};

// Checks each board's stream against formats.md: SOB, valid packets in order, EOB with the correct counts.
void check_streams(const std::vector<Received>& all, Frame burst_frames, std::uint64_t frames,
                   unsigned boards) {
  struct Board {
    int burst = -1;
    Sequence sequence = 0;
    mgp::EobCounts counts;
    std::set<Frame> complete;
    bool open = false;
    unsigned bursts = 0;
  };
  std::map<unsigned, Board> state;
  std::uint64_t frames_ended = 0;
  for (const Received& packet : all) {
    ASSERT_EQ(packet.checked.refusal, mgp::Refusal::none) << mgp::name(packet.checked.refusal);
    const mgp::Header& h = packet.checked.header;
    Board& board = state[h.board];
    if (h.has(mgp::flag::sob)) {
      ASSERT_FALSE(board.open);
      board.open = true;
      EXPECT_EQ(h.burst, board.bursts++);
      EXPECT_EQ(h.sequence, 0u);
      board.burst = h.burst;
      board.sequence = 0;
      board.counts = {0, 1, 0, 0};
      board.complete.clear();
      continue;
    }
    ASSERT_TRUE(board.open);
    ASSERT_EQ(h.sequence, ++board.sequence);
    ASSERT_EQ(h.burst, board.burst);
    ++board.counts.packets;
    if (h.has(mgp::flag::eob)) {
      board.counts.frames = static_cast<std::uint32_t>(board.complete.size());
      EXPECT_EQ(mgp::decode_eob(packet.bytes.data()), board.counts);
      EXPECT_EQ(h.frame, *board.complete.rbegin());
      frames_ended += board.complete.size();
      board.open = false;
      continue;
    }
    EXPECT_LT(h.frame, burst_frames);
    board.counts.events += packet.checked.fragments;
    board.counts.hits += packet.checked.hits;
    if (h.has(mgp::flag::last)) {
      EXPECT_EQ(h.frame, board.complete.size());  // every frame once, in order
      board.complete.insert(h.frame);
    }
  }
  EXPECT_EQ(state.size(), boards);
  for (const auto& [id, board] : state) EXPECT_FALSE(board.open) << "no EOB of board " << id;
  EXPECT_EQ(frames_ended, frames * boards);
}

TEST_F(ReadoutRun, BurstsAreWholeAndTheirCountsRight) {
  options.bursts = 2;
  const auto all = run();
  EXPECT_EQ(all.size(), packets);
  EXPECT_EQ(frames, 200u);
  EXPECT_EQ(bursts, 2u);
  check_streams(all, 100, 200, 4);
  std::uint64_t got = 0;
  for (const Received& packet : all) got += packet.checked.fragments;
  EXPECT_EQ(got, fragments);
}

TEST_F(ReadoutRun, PaddedTrainsHoldTheSameStreams) {
  options.pack.pad = true;
  options.bursts = 2;
  const auto all = run();
  check_streams(all, 100, 200, 4);
  for (const Received& packet : all) {
    const mgp::Header& h = packet.checked.header;
    if (h.has(mgp::flag::sob | mgp::flag::eob)) continue;
    EXPECT_EQ(packet.bytes.size(), options.pack.max_payload);
    EXPECT_TRUE(h.has(mgp::flag::padded));
  }
}

TEST_F(ReadoutRun, MergedStreamOfFixedSlots) {
  options.pack.merged = options.pack.fixed = true;
  options.bursts = 1;
  check_streams(run(), 100, 100, 1);
}

TEST_F(ReadoutRun, StopsAfterTheFrameOfTheLastRequestedEvent) {
  options.events = 3000;
  const auto all = run();
  EXPECT_GE(events, 3000u);
  check_streams(all, 100, frames, 4);
  options.events = events;  // one frame less would have had too few
  (void)run();
  const std::uint64_t same = frames;
  options.events = events + 1;
  (void)run();
  EXPECT_EQ(frames, same + 1);
}

TEST_F(ReadoutRun, BurstNumbersWrap) {
  options.burst_frames = 2;
  options.bursts = 3;
  options.first_burst = 254;
  std::vector<unsigned> sobs;
  for (const Received& packet : run())
    if (packet.checked.header.has(mgp::flag::sob) && packet.checked.header.board == 0)
      sobs.push_back(packet.checked.header.burst);
  EXPECT_EQ(sobs, (std::vector<unsigned>{254, 255, 0}));
}

TEST_F(ReadoutRun, DropsAreMissingFromTheStreamButNotFromTheCountsOfEob) {
  options.bursts = 1;
  parse_faults("drop=0.1", options.faults);
  std::uint32_t said = 0;
  const auto all = run();
  for (const Received& packet : all)
    if (packet.checked.header.has(mgp::flag::eob)) said += mgp::decode_eob(packet.bytes.data()).packets;
  EXPECT_GT(faults[static_cast<std::size_t>(Fault::drop)], 0u);
  EXPECT_EQ(all.size() + faults[static_cast<std::size_t>(Fault::drop)], said);
  EXPECT_EQ(all.size(), packets);
}

// Packets of each board in order; the order between sockets is undefined.
std::map<int, std::vector<Bytes>> by_board(const std::vector<Received>& all) {
  std::map<int, std::vector<Bytes>> boards;
  for (const Received& packet : all)
    if (packet.checked.refusal == mgp::Refusal::none)
      boards[packet.checked.header.board].push_back(packet.bytes);
  return boards;
}

TEST_F(ReadoutRun, SeveralThreadsSendWhatOneSends) {
  options.bursts = 3;
  options.first_burst = 254;
  options.times = testing::TempDir() + "nanet-readout-threads-" + std::to_string(getpid());
  const auto alone = by_board(run());
  const std::vector<std::uint64_t> counted{packets, events, fragments, frames, bursts};
  for (const double speed : {1.0, 0.0}) {
    for (const unsigned threads : {2u, 3u, 4u}) {
      options.speed = speed;
      options.threads = threads;
      EXPECT_EQ(by_board(run()), alone) << threads;
      EXPECT_EQ((std::vector<std::uint64_t>{packets, events, fragments, frames, bursts}), counted) << threads;
      TimesReader times(options.times);
      times.refresh();
      for (std::uint64_t f = 0; f < 300; ++f) {
        EXPECT_GT(times.at(f).first, f == 0 ? 0u : times.at(f - 1).first - 1) << f;
        EXPECT_GE(times.at(f).last, times.at(f).first) << f;
      }
    }
  }
  std::filesystem::remove(options.times);
}

TEST_F(ReadoutRun, ThreadsThatAreStoppedEndWithTheSameFrame) {
  options.threads = 4;
  options.speed = 0.2;
  options.batch_us = 0;
  for (const std::size_t after : {1u, 7u, 399u, 400u, 411u, 1000u}) {
    options.bursts = 100;
    const auto all = run(after);
    EXPECT_LT(frames, 10'000u);
    check_streams(all, 100, frames, 4);
    std::uint64_t got = 0;
    for (const Received& packet : all) got += packet.checked.fragments;
    EXPECT_EQ(got, fragments);
  }
}

TEST_F(ReadoutRun, ThreadsEndTogetherWhenTheTimeIsOver) {
  options.threads = 3;
  options.speed = 20;  // faster than possible, so that the boards are behind
  options.duration_s = 0.02;
  const auto all = run();
  EXPECT_GT(frames, 0u);
  check_streams(all, 100, frames, 4);
}

TEST_F(ReadoutRun, NoMoreFramesLeaveTogetherThanConfigured) {
  options.bursts = 1;
  options.speed = 0;  // always behind schedule
  options.pack.pad = true;
  options.batch_frames = 2;
  check_streams(run(), 100, 100, 4);
  EXPECT_GE(messages, 4 * 100 / 2u);
}

TEST_F(ReadoutRun, FaultsOfSeveralThreadsAreThoseOfOne) {
  options.bursts = 2;
  options.faults.markers = true;
  parse_faults("drop=0.03,dup=0.03,reorder=0.03,corrupt=0.03,delay=0.03", options.faults);
  const auto alone = by_board(run());
  const auto counted = faults;
  options.threads = 4;
  EXPECT_EQ(by_board(run()), alone);
  EXPECT_EQ(faults, counted);
}

TEST_F(ReadoutRun, FaultsRepeatWhateverTheTiming) {
  options.bursts = 2;
  options.pack.pad = true;
  parse_faults("drop=0.03,dup=0.03,reorder=0.03,corrupt=0.03,delay=0.03", options.faults);
  const auto paced = by_board(run());
  options.speed = 0;
  options.batch_us = 0;
  EXPECT_EQ(by_board(run()), paced);
}

TEST_F(ReadoutRun, LateSendsNameFrameAndBoardOnce) {
  options.times = testing::TempDir() + "nanet-readout-late-" + std::to_string(getpid());
  options.bursts = 2;
  options.late_us = 0.01;  // less than a call takes: every frame of every board
  for (const unsigned threads : {1u, 4u}) {
    options.threads = threads;
    Readout readout(options);
    readout.start();
    readout.join();
    std::set<std::pair<std::uint64_t, std::uint32_t>> seen;
    for (const LateSend& late : readout.late_sends()) {
      EXPECT_TRUE(seen.insert({late.frame, late.board}).second) << late.frame;
      EXPECT_LT(late.frame, 200u);
      EXPECT_LT(late.board, 4u);
    }
    EXPECT_EQ(seen.size(), 200u * 4) << threads;
  }
  std::filesystem::remove(options.times);
}

TEST_F(ReadoutRun, SendTimesAreThereForEveryFrameInOrder) {
  options.times = testing::TempDir() + "nanet-readout-times-" + std::to_string(getpid());
  options.bursts = 2;
  const auto before = static_cast<std::uint64_t>(os::monotonic_now());
  (void)run();
  const auto after = static_cast<std::uint64_t>(os::monotonic_now());
  EXPECT_EQ(std::filesystem::file_size(options.times), 200u * 16);
  TimesReader times(options.times);
  times.refresh();
  std::uint64_t previous = before;
  const double frame = frame_ns;
  const std::uint64_t start = times.at(0).first;
  for (std::uint64_t f = 0; f < 200; ++f) {
    const SendTimes sent = times.at(f);
    EXPECT_GE(sent.first, previous);
    EXPECT_GE(sent.last, sent.first);
    EXPECT_LE(sent.last, after);
    previous = sent.first;
  }
  // Never early: the last frame leaves at least 199 frame times after the first was due.
  EXPECT_GE(static_cast<double>(times.at(199).first - before), 199 * frame);
  EXPECT_GE(start, before);
  std::filesystem::remove(options.times);
}

TEST_F(ReadoutRun, BoardsAreDealtOutToDestinations) {
  const os::Fd second = os::open_udp_receiver({0x7F000001, 0});
  options.nodes.front().push_back(os::local_endpoint(second.get()));
  options.bursts = 1;
  std::set<unsigned> here, there;
  for (const Received& packet : run()) here.insert(packet.checked.header.board);
  Bytes bytes(2048);
  while (recv(second.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0)
    there.insert(mgp::decode_header(bytes.data()).board);
  EXPECT_EQ(here, (std::set<unsigned>{0, 2}));
  EXPECT_EQ(there, (std::set<unsigned>{1, 3}));
}

// Streams of one burst by node and board, checked against the rule of dealing.
void check_dealing(const std::vector<Bytes>& packets, unsigned node, unsigned nodes, Frame last) {
  std::map<unsigned, Sequence> sequence;
  std::map<unsigned, std::set<Frame>> frames;
  std::map<unsigned, std::uint32_t> sent;
  for (const Bytes& bytes : packets) {
    const mgp::Checked checked = mgp::validate(bytes, {});
    ASSERT_EQ(checked.refusal, mgp::Refusal::none);
    const mgp::Header& h = checked.header;
    ASSERT_EQ(h.sequence, sequence[h.board]++);  // contiguous per board and node, from the SOB on
    ++sent[h.board];
    if (h.has(mgp::flag::eob)) {
      EXPECT_EQ(h.frame, last);  // of the burst, not of the node
      const mgp::EobCounts counts = mgp::decode_eob(bytes.data());
      EXPECT_EQ(counts.packets, sent[h.board]);
      EXPECT_EQ(counts.frames, frames[h.board].size());
    } else if (!h.has(mgp::flag::sob)) {
      EXPECT_EQ(h.frame % nodes, node);
      frames[h.board].insert(h.frame);
    }
  }
  ASSERT_EQ(sent.size(), 4u);
  for (const auto& [board, seen] : frames)
    EXPECT_EQ(seen.size(), (wire::Dealing{node, nodes}.frames(last))) << "board " << board;
}

TEST_F(ReadoutRun, FramesAreDealtToNodesByTheirNumber) {
  for (const unsigned nodes : {1u, 2u, 3u}) {
    for (const bool faulty : {false, true}) {
      std::vector<os::Fd> sockets;
      options.nodes.clear();
      for (unsigned k = 0; k < nodes; ++k) {
        sockets.push_back(os::open_udp_receiver({0x7F000001, 0}, {.buffer_bytes = 64 << 20}));
        options.nodes.push_back({os::local_endpoint(sockets.back().get())});
      }
      options.bursts = 1;
      options.threads = faulty ? 1 : 3;  // boards 0 and 3 share a thread
      options.faults.probability[static_cast<std::size_t>(Fault::dup)] =
          faulty ? 1e-12 : 0;  // the other path
      Readout readout(options);
      readout.start();
      readout.join();
      std::uint64_t packets_of_all = 0;
      for (unsigned k = 0; k < nodes; ++k) {
        std::vector<Bytes> received;
        Bytes bytes(65536);
        ssize_t n = 0;
        while ((n = recv(sockets[k].get(), bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0)
          received.emplace_back(bytes.data(), bytes.data() + n);
        EXPECT_EQ(readout.packets_to(k), received.size());
        packets_of_all += received.size();
        EXPECT_EQ(readout.counters().dealt[k], (wire::Dealing{k, nodes}.frames(99)));
        check_dealing(received, k, nodes, 99);
      }
      EXPECT_EQ(readout.packets(), packets_of_all);
    }
  }
}

TEST_F(ReadoutRun, ANodeThatListensNoLongerHoldsUpNothing) {
  os::Fd gone = os::open_udp_receiver({0x7F000001, 0});
  options.nodes.push_back({os::local_endpoint(gone.get())});
  gone = os::Fd{};
  options.bursts = 1;
  std::set<Frame> here;
  Readout readout(options);
  readout.start();
  readout.join();
  Bytes bytes(65536);
  while (recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0)
    if (const auto h = mgp::decode_header(bytes.data()); !h.has(mgp::flag::sob | mgp::flag::eob))
      here.insert(h.frame);
  EXPECT_EQ(here.size(), 50u);
  EXPECT_EQ(readout.counters().frames, 100u);
  EXPECT_EQ(readout.counters().dealt[1], 50u);
  EXPECT_GT(readout.errors_to(1, SendError::refused), 0u);  // ICMP: port unreachable
  EXPECT_EQ(readout.errors_to(0, SendError::refused), 0u);
}

TEST_F(ReadoutRun, CaptureIsSentAsRecorded) {
  const std::string path = testing::TempDir() + "nanet-readout-" + std::to_string(getpid()) + ".pcap";
  CaptureOptions capture;
  capture.events = 2000;
  capture.burst_frames = 20;
  CaptureWriter writer(capture, path);
  std::set<std::uint64_t> with_hits;
  for (bool more = true; more;) {
    more = writer.next(1000);
    for (std::size_t i = 0; i < writer.truth().event.size(); ++i)
      if (writer.truth().event_hits[i] > 0) with_hits.insert(writer.truth().event[i]);
  }
  options.pcap = path;
  const auto all = run();
  EXPECT_EQ(all.size(), writer.totals().packets);
  EXPECT_EQ(fragments, writer.totals().fragments);
  EXPECT_EQ(frames, writer.totals().frames);
  EXPECT_EQ(bursts, writer.totals().bursts);
  // Counted from fragments alone. An event at a frame edge counts twice. Two simultaneous events count once,
  // unless one board saw both.
  EXPECT_NEAR(static_cast<double>(events), static_cast<double>(with_hits.size()), 3.0);
  wire::PcapReader reader(path);
  wire::PcapRecord record;
  std::size_t i = 0;
  while (reader.next(record)) {
    const auto udp = wire::parse_udp_frame(record.frame, record.original, mgp::default_port);
    ASSERT_LT(i, all.size());
    EXPECT_TRUE(std::equal(udp.payload.begin(), udp.payload.end(), all[i].bytes.begin(), all[i].bytes.end()))
        << i;
    ++i;
  }
  std::filesystem::remove(path);
}

TEST_F(ReadoutRun, ContradictionsAreReportedBeforeAnythingIsSent) {
  const auto refused = [](const ReadoutOptions& given, const char* key) {
    try {
      const Readout readout(given);
      FAIL() << key;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  };
  ReadoutOptions wrong = options;
  wrong.times = "/tmp/times";
  refused(wrong, "times");
  wrong = options;
  wrong.late_us = 100;
  refused(wrong, "give times");
  wrong.times = "/tmp/times";
  wrong.bursts = 1;
  parse_faults("drop=0.1", wrong.faults);
  refused(wrong, "late_us");
  wrong = options;
  wrong.speed = -1;
  refused(wrong, "speed");
  wrong = options;
  wrong.burst_frames = 0;
  refused(wrong, "burst_frames");
  wrong = options;
  wrong.nodes.clear();
  refused(wrong, "to");
  wrong.nodes.assign(wire::max_nodes + 1, options.nodes.front());
  refused(wrong, "65 nodes");
  wrong.nodes.resize(2);
  wrong.pcap = "run.pcap";
  refused(wrong, "sequence numbers");
  for (const unsigned frames : {0u, 45u}) {
    wrong = options;
    wrong.batch_frames = frames;
    refused(wrong, "batch_frames");
  }
  for (const unsigned threads : {0u, 5u}) {
    wrong = options;
    wrong.threads = threads;
    refused(wrong, "threads");
  }
  wrong = options;
  wrong.pack.merged = true;
  wrong.threads = 2;
  refused(wrong, "threads");
  wrong = options;
  wrong.pcap = "run.pcap";
  wrong.threads = 2;
  refused(wrong, "threads");
  wrong = options;
  wrong.pin = {-1};
  refused(wrong, "pin");
  wrong = options;
  wrong.pcap = "/nonexistent.pcap";
  EXPECT_THROW(Readout{wrong}, std::system_error);
}

TEST_F(ReadoutRun, AFailedPinIsReportedAndNothingIsSent) {
  options.threads = 2;
  options.bursts = 1;
  options.pin = {1 << 20};
  Readout readout(options);
  readout.start();
  EXPECT_THROW(readout.join(), std::system_error);
  EXPECT_EQ(readout.packets(), 0u);
}

}  // namespace
}  // namespace nanet::readout

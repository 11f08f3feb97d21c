// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "nanet/fabric/fabric_test.hpp"

namespace nanet::fabric::testing {
namespace {

constexpr std::uint64_t any_tag = ~std::uint64_t{0};

TEST(Messages, EverySizeArrivesWithItsTag) {
  Pair p;
  for (const std::size_t bytes : {0ul, 1ul, 192ul, 193ul, 8192ul, 8193ul, 3'000'000ul}) {
    const auto sent = pattern(bytes);
    std::vector<std::byte> got(bytes + 8);
    int context = 0;
    ASSERT_EQ(fi_trecv(p.b.ep, got.data(), got.size(), nullptr, p.to_a, 77, 0, &context), 0);
    ASSERT_EQ(fi_tsend(p.a.ep, sent.data(), bytes, nullptr, p.to_b, 77, nullptr), 0);
    fi_cq_tagged_entry e;
    fi_addr_t from = 0;
    ASSERT_EQ(p.b.wait(p.b.rx, e, &p.a, &from), 1);
    EXPECT_EQ(e.op_context, &context);
    EXPECT_EQ(e.len, bytes);
    EXPECT_EQ(e.tag, 77u);
    EXPECT_EQ(e.flags, FI_RECV | FI_TAGGED);
    EXPECT_EQ(from, p.to_a);
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), got.begin()));
    ASSERT_EQ(p.a.wait(p.a.tx, e, &p.b), 1);
    EXPECT_EQ(e.flags, FI_SEND | FI_TAGGED);
  }
}

TEST(Messages, OrderHoldsBeyondTheCredits) {
  Pair p;
  constexpr unsigned count = 500;
  for (unsigned i = 0; i < count; ++i) {
    const auto m = pattern(i % 3 == 0 ? 8000 : i % 3 == 1 ? 16 : 20'000, i);
    if (m.size() > 8192) continue;
    ASSERT_EQ(fi_inject(p.a.ep, m.data(), m.size(), p.to_b), 0);
  }
  for (unsigned i = 0; i < count; ++i) {
    if (i % 3 == 2) continue;
    std::vector<std::byte> got(8192);
    ASSERT_EQ(fi_recv(p.b.ep, got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, nullptr), 0);
    fi_cq_tagged_entry e;
    ASSERT_EQ(p.b.wait(p.b.rx, e, &p.a), 1);
    got.resize(e.len);
    ASSERT_EQ(got, pattern(i % 3 == 0 ? 8000 : 16, i)) << i;
  }
}

TEST(Messages, SendsFailWithAgainWhenTooManyWait) {
  Pair p;
  ssize_t result = 0;
  unsigned sent = 0;
  const auto m = pattern(4000);
  while ((result = fi_tinject(p.a.ep, m.data(), m.size(), p.to_b, sent)) == 0 && sent < 100'000) ++sent;
  EXPECT_EQ(result, -FI_EAGAIN);
  for (unsigned i = 0; i < sent; ++i) {
    std::vector<std::byte> got(4000);
    ASSERT_EQ(fi_trecv(p.b.ep, got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, i, 0, nullptr), 0);
    fi_cq_tagged_entry e;
    ASSERT_EQ(p.b.wait(p.b.rx, e, &p.a), 1);
  }
}

TEST(Messages, RemoteDataAndVectors) {
  Pair p;
  auto sent = pattern(50'000);
  std::vector<std::byte> got(50'000);
  const iovec out[2] = {{sent.data(), 20'001}, {sent.data() + 20'001, 29'999}};
  const iovec in[3] = {{got.data(), 1}, {got.data() + 1, 40'000}, {got.data() + 40'001, 9'999}};
  fi_msg_tagged receive = {};
  receive.msg_iov = in;
  receive.iov_count = 3;
  receive.addr = FI_ADDR_UNSPEC;
  receive.ignore = any_tag;
  ASSERT_EQ(fi_trecvmsg(p.b.ep, &receive, 0), 0);
  fi_msg_tagged send = {};
  send.msg_iov = out;
  send.iov_count = 2;
  send.addr = p.to_b;
  send.tag = 5;
  send.data = 99;
  ASSERT_EQ(fi_tsendmsg(p.a.ep, &send, FI_REMOTE_CQ_DATA | FI_COMPLETION), 0);
  fi_cq_tagged_entry e;
  ASSERT_EQ(p.b.wait(p.b.rx, e, &p.a), 1);
  EXPECT_EQ(e.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
  EXPECT_EQ(e.data, 99u);
  EXPECT_EQ(got, sent);
}

TEST(Messages, TruncationIsAnErrorOfTheReceiver) {
  for (const std::size_t bytes : {100ul, 100'000ul}) {
    Pair p;
    const auto sent = pattern(bytes);
    std::vector<std::byte> got(10);
    ASSERT_EQ(fi_trecv(p.b.ep, got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, 1, 0, &got), 0);
    ASSERT_EQ(fi_tsend(p.a.ep, sent.data(), bytes, nullptr, p.to_b, 1, nullptr), 0);
    fi_cq_tagged_entry e;
    ASSERT_EQ(p.b.wait(p.b.rx, e, &p.a), -FI_EAVAIL);
    const fi_cq_err_entry error = p.b.error(p.b.rx);
    EXPECT_EQ(error.err, FI_ETRUNC);
    EXPECT_EQ(error.len, 10u);
    EXPECT_EQ(error.olen, bytes - 10);
    EXPECT_EQ(error.op_context, &got);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), sent.begin()));
    EXPECT_EQ(p.a.wait(p.a.tx, e, &p.b), 1);
  }
}

TEST(Messages, CancelledReceiveReportsAndTakesNothing) {
  Pair p;
  int context = 0;
  char byte = 0;
  ASSERT_EQ(fi_trecv(p.b.ep, &byte, 1, nullptr, FI_ADDR_UNSPEC, 3, 0, &context), 0);
  EXPECT_EQ(fi_cancel(&p.b.ep->fid, &context), 0);
  EXPECT_EQ(fi_cancel(&p.b.ep->fid, &context), -FI_ENOENT);
  fi_cq_tagged_entry e;
  ASSERT_EQ(p.b.wait(p.b.rx, e), -FI_EAVAIL);
  const fi_cq_err_entry error = p.b.error(p.b.rx);
  EXPECT_EQ(error.err, FI_ECANCELED);
  EXPECT_EQ(error.op_context, &context);
}

// Posts a peek and returns the error of its completion, 0 for success.
int peek(Pair& p, std::uint64_t tag, std::uint64_t flags, fi_context* context, fi_cq_tagged_entry& e) {
  fi_msg_tagged m = {};
  m.addr = FI_ADDR_UNSPEC;
  m.tag = tag;
  m.context = context;
  EXPECT_EQ(fi_trecvmsg(p.b.ep, &m, flags | FI_COMPLETION), 0);
  if (p.b.wait(p.b.rx, e) == 1) return 0;
  return p.b.error(p.b.rx).err;
}

TEST(Messages, PeekClaimDiscard) {
  Pair p;
  const auto sent = pattern(20'000);
  fi_context context = {};
  fi_cq_tagged_entry e = {};
  EXPECT_EQ(peek(p, 1, FI_PEEK, &context, e), FI_ENOMSG);
  for (std::uint64_t tag : {1, 2, 3})
    ASSERT_EQ(fi_tsend(p.a.ep, sent.data(), sent.size(), nullptr, p.to_b, tag, nullptr), 0);
  for (int tries = 0; tries < 10'000 && peek(p, 3, FI_PEEK, &context, e) != 0; ++tries) usleep(100);
  EXPECT_EQ(peek(p, 2, FI_PEEK, &context, e), 0);
  EXPECT_EQ(e.len, sent.size());
  EXPECT_EQ(e.tag, 2u);
  EXPECT_EQ(peek(p, 2, FI_PEEK | FI_CLAIM, &context, e), 0);
  EXPECT_EQ(peek(p, 2, FI_PEEK, &context, e), FI_ENOMSG);  // claimed
  EXPECT_EQ(peek(p, 3, FI_PEEK | FI_DISCARD, &context, e), 0);
  EXPECT_EQ(peek(p, 3, FI_PEEK, &context, e), FI_ENOMSG);

  std::vector<std::byte> got(sent.size());
  const iovec in{got.data(), got.size()};
  fi_msg_tagged m = {};
  m.msg_iov = &in;
  m.iov_count = 1;
  m.addr = FI_ADDR_UNSPEC;
  m.tag = 2;
  m.context = &context;
  ASSERT_EQ(fi_trecvmsg(p.b.ep, &m, FI_CLAIM | FI_COMPLETION), 0);
  ASSERT_EQ(p.b.wait(p.b.rx, e, &p.a), 1);
  EXPECT_EQ(got, sent);
  ASSERT_EQ(p.a.wait(p.a.tx, e, &p.b), 1);  // 2 claimed
  ASSERT_EQ(p.a.wait(p.a.tx, e, &p.b), 1);  // 3 discarded
}

TEST(Messages, DirectedReceiveTakesOnlyItsSource) {
  Side c;
  Pair p;
  const fi_addr_t from_c = p.b.insert(c.name());
  const fi_addr_t c_to_b = c.insert(p.b.name());
  int one = 1, two = 2, got_c = 0, got_a = 0;
  ASSERT_EQ(fi_trecv(p.b.ep, &got_c, 4, nullptr, from_c, 0, any_tag, nullptr), 0);
  ASSERT_EQ(fi_trecv(p.b.ep, &got_a, 4, nullptr, p.to_a, 0, any_tag, nullptr), 0);
  ASSERT_EQ(fi_tinject(p.a.ep, &one, 4, p.to_b, 9), 0);
  ASSERT_EQ(fi_tinject(c.ep, &two, 4, c_to_b, 9), 0);
  fi_cq_tagged_entry e;
  ASSERT_EQ(p.b.wait(p.b.rx, e), 1);
  ASSERT_EQ(p.b.wait(p.b.rx, e), 1);
  EXPECT_EQ(got_a, 1);
  EXPECT_EQ(got_c, 2);
}

TEST(Messages, MultiReceiveFillsOneBuffer) {
  Pair p;
  std::size_t least = 100;
  ASSERT_EQ(fi_setopt(&p.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), 0);
  std::vector<std::byte> buffer(1000);
  const iovec in{buffer.data(), buffer.size()};
  fi_msg m = {};
  m.msg_iov = &in;
  m.iov_count = 1;
  m.addr = FI_ADDR_UNSPEC;
  ASSERT_EQ(fi_recvmsg(p.b.ep, &m, FI_MULTI_RECV), 0);
  const auto sent = pattern(300);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(fi_inject(p.a.ep, sent.data(), i == 3 ? 60 : 300, p.to_b), 0);
  std::size_t at = 0;
  for (int i = 0; i < 4; ++i) {
    fi_cq_tagged_entry e;
    ASSERT_EQ(p.b.wait(p.b.rx, e), 1);
    EXPECT_EQ(e.buf, buffer.data() + at);
    EXPECT_EQ((e.flags & FI_MULTI_RECV) != 0, i == 3) << i;  // the minimum is still left after the third
    at += e.len;
  }
}

TEST(Messages, SelectiveCompletionsAndDelivery) {
  Options o;
  o.bind_flags = FI_SELECTIVE_COMPLETION;
  Pair p(o);
  int value = 7, got = 0;
  ASSERT_EQ(fi_tsend(p.a.ep, &value, 4, nullptr, p.to_b, 1, nullptr), 0);
  fi_cq_tagged_entry e;
  EXPECT_EQ(fi_cq_read(p.a.tx, &e, 1), -FI_EAGAIN);
  const iovec out{&value, 4};
  fi_msg_tagged m = {};
  m.msg_iov = &out;
  m.iov_count = 1;
  m.addr = p.to_b;
  m.tag = 2;
  ASSERT_EQ(fi_tsendmsg(p.a.ep, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
  for (int i = 0; i < 100; ++i) {
    fi_cq_read(p.b.rx, nullptr, 0);
    ASSERT_EQ(fi_cq_read(p.a.tx, &e, 1), -FI_EAGAIN);  // not received yet
  }
  ASSERT_EQ(fi_trecv(p.b.ep, &got, 4, nullptr, FI_ADDR_UNSPEC, 2, 0, nullptr), 0);
  ASSERT_EQ(p.a.wait(p.a.tx, e, &p.b), 1);
  EXPECT_EQ(got, 7);
}

TEST(Messages, EndpointSendsToItself) {
  Side a;
  const fi_addr_t self = a.insert(a.name());
  const auto sent = pattern(100'000);
  std::vector<std::byte> got(sent.size());
  ASSERT_EQ(fi_trecv(a.ep, got.data(), got.size(), nullptr, self, 0, 0, nullptr), 0);
  ASSERT_EQ(fi_tsend(a.ep, sent.data(), sent.size(), nullptr, self, 0, nullptr), 0);
  fi_cq_tagged_entry e;
  ASSERT_EQ(a.wait(a.rx, e), 1);
  ASSERT_EQ(a.wait(a.tx, e), 1);
  EXPECT_EQ(got, sent);
}

TEST(Messages, BlockingReadWakesUp) {
  Options o;
  o.progress = FI_PROGRESS_AUTO;
  Pair p(o);
  int value = 3, got = 0;
  ASSERT_EQ(fi_trecv(p.b.ep, &got, 4, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr), 0);
  fi_cq_tagged_entry e;
  EXPECT_EQ(fi_cq_sread(p.b.rx, &e, 1, nullptr, 20), -FI_EAGAIN);
  ASSERT_EQ(fi_tsend(p.a.ep, &value, 4, nullptr, p.to_b, 1, nullptr), 0);
  EXPECT_EQ(fi_cq_sread(p.b.rx, &e, 1, nullptr, 10'000), 1);
  EXPECT_EQ(got, 3);
}

}  // namespace
}  // namespace nanet::fabric::testing

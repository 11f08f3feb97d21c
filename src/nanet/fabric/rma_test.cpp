// SPDX-License-Identifier: Apache-2.0
#include <complex>

#include "nanet/fabric/fabric_test.hpp"

namespace nanet::fabric::testing {
namespace {

// Direct access, or packets: remote events require them.
class RmaTest : public ::testing::TestWithParam<bool> {
 protected:
  static Options options() {
    Options o;
    if (GetParam()) o.caps |= FI_RMA_EVENT;
    return o;
  }
};

TEST_P(RmaTest, WritesAndReads) {
  Pair p(options());
  std::vector<std::byte> memory(100'000), back(100'000);
  p.b.share(memory.data(), memory.size(), 42);
  const auto sent = pattern(60'000);
  fi_cq_tagged_entry e;
  ASSERT_EQ(fi_write(p.a.ep, sent.data(), sent.size(), nullptr, p.to_b, 1000, 42, &e), 0);
  ASSERT_EQ(p.a.wait(p.a.tx, e, &p.b), 1);
  EXPECT_EQ(e.flags, FI_RMA | FI_WRITE);
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), memory.begin() + 1000));
  ASSERT_EQ(fi_read(p.a.ep, back.data(), sent.size(), nullptr, p.to_b, 1000, 42, nullptr), 0);
  ASSERT_EQ(p.a.wait(p.a.tx, e, &p.b), 1);
  EXPECT_EQ(e.flags, FI_RMA | FI_READ);
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), back.begin()));
}

TEST_P(RmaTest, RemoteDataArrivesAfterTheBytes) {
  Pair p(options());
  std::vector<std::byte> memory(1000);
  p.b.share(memory.data(), memory.size(), 1);
  const auto sent = pattern(1000);
  ASSERT_EQ(fi_writedata(p.a.ep, sent.data(), sent.size(), nullptr, 55, p.to_b, 0, 1, nullptr), 0);
  fi_cq_tagged_entry e;
  ASSERT_EQ(p.b.wait(p.b.rx, e, &p.a), 1);
  EXPECT_EQ(e.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
  EXPECT_EQ(e.data, 55u);
  EXPECT_EQ(e.op_context, nullptr);
  EXPECT_EQ(memory, sent);
  ASSERT_EQ(p.a.wait(p.a.tx, e, &p.b), 1);
}

TEST_P(RmaTest, RefusesKeysRightsAndBounds) {
  Pair p(options());
  std::vector<std::byte> memory(64), local(64);
  p.b.share(memory.data(), memory.size(), 1, FI_REMOTE_READ);
  struct Case {
    std::uint64_t key, address;
    bool write;
    int error;
  };
  for (const Case& c : {Case{2, 0, false, FI_ENOKEY}, Case{1, 0, true, FI_EACCES},
                        Case{1, 1, false, FI_EINVAL}, Case{1, ~std::uint64_t{0}, false, FI_EINVAL}}) {
    if (c.write)
      ASSERT_EQ(fi_write(p.a.ep, local.data(), 64, nullptr, p.to_b, c.address, c.key, nullptr), 0);
    else
      ASSERT_EQ(fi_read(p.a.ep, local.data(), 64, nullptr, p.to_b, c.address, c.key, nullptr), 0);
    fi_cq_tagged_entry e;
    ASSERT_EQ(p.a.wait(p.a.tx, e, &p.b), -FI_EAVAIL);
    EXPECT_EQ(p.a.error(p.a.tx).err, c.error);
  }
  fid_mr* again = nullptr;
  EXPECT_EQ(fi_mr_reg(p.b.domain, memory.data(), 8, FI_REMOTE_READ, 0, 1, 0, &again, nullptr), -FI_ENOKEY);
}

TEST_P(RmaTest, FenceOrdersAfterAtomics) {
  Pair p(options());
  std::uint64_t word = 5, add = 10, got = 0;
  p.b.share(&word, sizeof word, 1);
  ASSERT_EQ(fi_inject_atomic(p.a.ep, &add, 1, p.to_b, 0, 1, FI_UINT64, FI_SUM), 0);
  const iovec in{&got, sizeof got};
  const fi_rma_iov target{0, sizeof got, 1};
  fi_msg_rma m = {};
  m.msg_iov = &in;
  m.iov_count = 1;
  m.addr = p.to_b;
  m.rma_iov = &target;
  m.rma_iov_count = 1;
  ASSERT_EQ(fi_readmsg(p.a.ep, &m, FI_FENCE | FI_COMPLETION), 0);
  fi_cq_tagged_entry e;
  ASSERT_EQ(p.a.wait(p.a.tx, e, &p.b), 1);
  EXPECT_EQ(got, 15u);
}

INSTANTIATE_TEST_SUITE_P(Ways, RmaTest, ::testing::Bool(),
                         [](const auto& i) { return i.param ? "packets" : "direct"; });

TEST(Rma, RemoteCountersCount) {
  Options o;
  o.caps |= FI_RMA_EVENT;
  Pair p(o);
  fid_cntr* counter = nullptr;
  ASSERT_EQ(fi_cntr_open(p.b.domain, nullptr, &counter, nullptr), 0);
  std::uint64_t memory = 0, value = 9;
  fid_mr* const mr = p.b.share(&memory, sizeof memory, 1);
  ASSERT_EQ(fi_mr_bind(mr, &counter->fid, FI_REMOTE_WRITE), 0);
  ASSERT_EQ(fi_inject_write(p.a.ep, &value, sizeof value, p.to_b, 0, 1), 0);
  EXPECT_EQ(fi_cntr_wait(counter, 1, 10'000), 0);
  EXPECT_EQ(memory, 9u);
  EXPECT_EQ(fi_close(&counter->fid), -FI_EBUSY);
  ASSERT_EQ(fi_close(&mr->fid), 0);
  p.b.regions.clear();
  EXPECT_EQ(fi_close(&counter->fid), 0);
}

TEST(Rma, BasicRegistrationUsesAddressesAndGivenKeys) {
  Options o;
  o.mr_mode = FI_MR_BASIC;
  Pair p(o);
  int memory = 0, value = 4;
  fid_mr* const first = p.b.share(&memory, sizeof memory, 0);
  ASSERT_EQ(fi_write(p.a.ep, &value, 4, nullptr, p.to_b, reinterpret_cast<std::uint64_t>(&memory),
                     fi_mr_key(first), nullptr),
            0);
  fi_cq_tagged_entry e;
  ASSERT_EQ(p.a.wait(p.a.tx, e, &p.b), 1);
  EXPECT_EQ(memory, 4);
}

TEST(Atomics, FetchCompareAndComplex) {
  Pair p;
  std::int32_t words[2] = {5, -7};
  std::complex<double> z(1, 2);
  p.b.share(words, sizeof words, 1);
  p.b.share(&z, sizeof z, 2);
  std::int32_t add[2] = {10, 20}, before[2] = {};
  fi_cq_tagged_entry e;
  ASSERT_EQ(
      fi_fetch_atomic(p.a.ep, add, 2, nullptr, before, nullptr, p.to_b, 0, 1, FI_INT32, FI_SUM, nullptr), 0);
  ASSERT_EQ(p.a.wait(p.a.tx, e, &p.b), 1);
  EXPECT_EQ(before[0], 5);
  EXPECT_EQ(before[1], -7);
  EXPECT_EQ(words[0], 15);
  EXPECT_EQ(words[1], 13);
  std::int32_t next = 100, expected = 15;
  ASSERT_EQ(fi_compare_atomic(p.a.ep, &next, 1, nullptr, &expected, nullptr, before, nullptr, p.to_b, 0, 1,
                              FI_INT32, FI_CSWAP, nullptr),
            0);
  ASSERT_EQ(p.a.wait(p.a.tx, e, &p.b), 1);
  EXPECT_EQ(words[0], 100);
  const std::complex<double> by(0, 1);
  ASSERT_EQ(fi_atomic(p.a.ep, &by, 1, nullptr, p.to_b, 0, 2, FI_DOUBLE_COMPLEX, FI_PROD, nullptr), 0);
  ASSERT_EQ(p.a.wait(p.a.tx, e, &p.b), 1);
  EXPECT_EQ(z, std::complex<double>(-2, 1));
  std::size_t count = 0;
  EXPECT_EQ(fi_atomicvalid(p.a.ep, FI_DOUBLE, FI_BXOR, &count), -FI_EOPNOTSUPP);
  EXPECT_EQ(fi_compare_atomicvalid(p.a.ep, FI_INT64, FI_MSWAP, &count), 0);
  EXPECT_EQ(count, 512u);
}

}  // namespace
}  // namespace nanet::fabric::testing

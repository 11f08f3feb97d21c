// SPDX-License-Identifier: Apache-2.0
// Tests of the mapping by GDRCopy with a library that stands in for it (gdrapi_test.cpp): order of the calls,
// release after each error, address within the mapping.
#include "nanet/os/gdr_mapping.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace nanet::os {
namespace {

struct Free {
  void operator()(std::byte* at) const { std::free(at); }
};

class Gdr : public testing::Test {
 protected:
  static constexpr std::size_t bytes = 2 * GdrMapping::page;

  Gdr() : library_(dlopen(GDRAPI, RTLD_NOW)) {
    if (!library_) return;
    begin_ = reinterpret_cast<void (*)(const char*)>(dlsym(library_, "fake_begin"));
    calls_ = reinterpret_cast<const char* (*)()>(dlsym(library_, "fake_calls"));
  }
  void SetUp() override { ASSERT_TRUE(library_ && begin_ && calls_) << GDRAPI; }

  std::unique_ptr<GdrMapping> open(const char* failing) {
    begin_(failing);
    return GdrMapping::open(reinterpret_cast<std::uintptr_t>(memory_.get()) + GdrMapping::page, bytes, why,
                            GDRAPI);
  }
  std::string calls() const { return calls_(); }
  std::byte* device() const { return memory_.get() + GdrMapping::page; }

  std::string why;

 private:
  void* library_;
  void (*begin_)(const char*) = nullptr;
  const char* (*calls_)() = nullptr;
  std::unique_ptr<std::byte, Free> memory_{
      static_cast<std::byte*>(std::aligned_alloc(GdrMapping::page, bytes + GdrMapping::page))};
};

TEST_F(Gdr, MapsTheMemoryAndReleasesItInReverse) {
  {
    const auto mapping = open("");
    ASSERT_TRUE(mapping) << why;
    EXPECT_EQ(mapping->host(), device());
    mapping->host()[bytes - 1] = std::byte{7};
    EXPECT_EQ(device()[bytes - 1], std::byte{7});
    EXPECT_EQ(calls(), "open pin map info");
  }
  EXPECT_EQ(calls(), "open pin map info unmap unpin close");
}

TEST_F(Gdr, ReleasesWhatWasMadeBeforeAnError) {
  const struct {
    const char *failing, *calls, *why;
  } cases[] = {
      {"open", "open", "gdr_open: the module gdrdrv is not loaded, or /dev/gdrdrv not accessible"},
      {"pin", "open pin close", "gdr_pin_buffer: error 12"},
      {"map", "open pin map unpin close", "gdr_map: error 11"},
      {"info", "open pin map info unmap unpin close", "gdr_get_info_v2: error 22"},
      {"short", "open pin map info unmap unpin close",
       "gdr_get_info_v2: the mapping does not hold the memory"},
  };
  for (const auto& c : cases) {
    EXPECT_FALSE(open(c.failing));
    EXPECT_EQ(calls(), c.calls);
    EXPECT_EQ(why, c.why);
  }
}

TEST_F(Gdr, ALibraryThatIsNotThereIsNamed) {
  EXPECT_FALSE(GdrMapping::open(0, bytes, why, "libgdrapi_of_no_host.so.2"));
  EXPECT_EQ(why, "no GDRCopy 2 (libgdrapi_of_no_host.so.2)");
  // A library without the interface.
  EXPECT_FALSE(GdrMapping::open(0, bytes, why, "libc.so.6"));
  EXPECT_EQ(why, "no GDRCopy 2 (libc.so.6)");
}

}  // namespace
}  // namespace nanet::os

// SPDX-License-Identifier: Apache-2.0
// VFIO bus for a board in a slot (Linux): BAR 0 mapped, memory registered with the IOMMU. Compiled, not run
// on hardware.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nanet/gateware/bus.hpp"
#include "nanet/os/fd.hpp"

namespace nanet::gateware {

class VfioBus final : public Bus {
 public:
  // address: PCI function bound to vfio-pci, such as 0000:03:00.0. Throws std::system_error or
  // std::runtime_error naming the remedy.
  explicit VfioBus(std::string_view address);
  ~VfioBus() override;
  VfioBus(const VfioBus&) = delete;
  VfioBus& operator=(const VfioBus&) = delete;

  std::uint32_t read(std::uint32_t address) override;
  void write(std::uint32_t address, std::uint32_t value) override;
  std::uint64_t map(std::byte* at, std::size_t bytes) override;
  std::vector<std::uint64_t> map_pages(std::byte* at, std::size_t bytes, std::size_t page_bytes) override;
  void unmap(std::byte* at) noexcept override;

 private:
  struct Mapping {
    std::byte* at;
    std::uint64_t bus;
    std::size_t bytes;
  };
  os::Fd container_, group_, device_;
  volatile std::uint32_t* registers_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint64_t next_ = std::uint64_t{1} << 32;  // bus addresses are allocated from here, in pieces of 2 MB
  std::vector<Mapping> mappings_;
};

}  // namespace nanet::gateware

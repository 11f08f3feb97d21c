// SPDX-License-Identifier: Apache-2.0
#include "nanet/gateware/vfio_bus.hpp"

#include <fcntl.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace nanet::gateware {
namespace {

constexpr std::size_t piece = std::size_t{1} << 21;

[[noreturn]] void fail(const std::string& sentence) {
  throw std::system_error(errno, std::generic_category(), sentence);
}

os::Fd open_file(const std::string& path, const std::string& remedy) {
  os::Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) fail("cannot open " + path + ": " + remedy);
  return file;
}

}  // namespace

VfioBus::VfioBus(std::string_view address) {
  const std::string name(address), folder = "/sys/bus/pci/devices/" + name;
  std::error_code trouble;
  const auto link = std::filesystem::read_symlink(folder + "/iommu_group", trouble);
  if (trouble)
    throw std::runtime_error("no PCI function " + name +
                             " behind an IOMMU: see lspci -D, and enable the IOMMU in firmware and kernel");
  const std::string group = link.filename().string();
  container_ = open_file("/dev/vfio/vfio", "load the module vfio-pci");
  if (ioctl(container_.get(), VFIO_GET_API_VERSION) != VFIO_API_VERSION ||
      !ioctl(container_.get(), VFIO_CHECK_EXTENSION, VFIO_TYPE1v2_IOMMU))
    throw std::runtime_error("this kernel's VFIO has no type 1 IOMMU");
  group_ = open_file("/dev/vfio/" + group, "bind " + name + " to vfio-pci and get access to the file");
  vfio_group_status status{};
  status.argsz = sizeof status;
  if (ioctl(group_.get(), VFIO_GROUP_GET_STATUS, &status) < 0) fail("VFIO group " + group);
  if (!(status.flags & VFIO_GROUP_FLAGS_VIABLE))
    throw std::runtime_error("VFIO group " + group +
                             " is not complete: bind all of its functions to vfio-pci");
  int container = container_.get();
  if (ioctl(group_.get(), VFIO_GROUP_SET_CONTAINER, &container) < 0) fail("VFIO group " + group);
  if (ioctl(container_.get(), VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU) < 0) fail("VFIO: setting the IOMMU up");
  device_ = os::Fd(ioctl(group_.get(), VFIO_GROUP_GET_DEVICE_FD, name.c_str()));
  if (!device_) fail("VFIO: opening " + name);

  vfio_region_info bar{};
  bar.argsz = sizeof bar;
  bar.index = VFIO_PCI_BAR0_REGION_INDEX;
  if (ioctl(device_.get(), VFIO_DEVICE_GET_REGION_INFO, &bar) < 0) fail("BAR 0 of " + name);
  if (!(bar.flags & VFIO_REGION_INFO_FLAG_MMAP))
    throw std::runtime_error("BAR 0 of " + name + " cannot be mapped");
  bytes_ = static_cast<std::size_t>(bar.size);
  void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, device_.get(),
                        static_cast<off_t>(bar.offset));
  if (at == MAP_FAILED) fail("mapping BAR 0 of " + name);
  registers_ = static_cast<volatile std::uint32_t*>(at);

  // Enable bus mastering.
  vfio_region_info config{};
  config.argsz = sizeof config;
  config.index = VFIO_PCI_CONFIG_REGION_INDEX;
  if (ioctl(device_.get(), VFIO_DEVICE_GET_REGION_INFO, &config) < 0) fail("configuration space of " + name);
  const auto command = static_cast<off_t>(config.offset + PCI_COMMAND);
  std::uint16_t value = 0;
  if (pread(device_.get(), &value, sizeof value, command) != sizeof value)
    fail("configuration space of " + name);
  value |= PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
  if (pwrite(device_.get(), &value, sizeof value, command) != sizeof value)
    fail("configuration space of " + name);
}

VfioBus::~VfioBus() {
  while (!mappings_.empty()) unmap(mappings_.back().at);
  if (registers_) munmap(const_cast<std::uint32_t*>(registers_), bytes_);
}

std::uint32_t VfioBus::read(std::uint32_t address) {
  const std::uint32_t value = registers_[address / 4];
  // Value that the host bridge returns for an absent card. `id` differs, and no counter keeps this value for
  // long.
  if (value == ~std::uint32_t{0} && registers_[0] == value)
    throw std::runtime_error("the card does not respond");
  return value;
}

void VfioBus::write(std::uint32_t address, std::uint32_t value) {
  registers_[address / 4] = value;
}

// One contiguous range of bus addresses aligned to the card's largest page, so that its pages are aligned
// too.
std::uint64_t VfioBus::map(std::byte* at, std::size_t bytes) {
  const std::size_t whole = (bytes + 4095) / 4096 * 4096;
  vfio_iommu_type1_dma_map request{};
  request.argsz = sizeof request;
  request.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE;
  request.vaddr = reinterpret_cast<std::uintptr_t>(at);
  request.iova = next_;
  request.size = whole;
  if (ioctl(container_.get(), VFIO_IOMMU_MAP_DMA, &request) < 0)
    fail(
        "cannot map " + std::to_string(whole >> 20) +
        " MiB of memory for the card: raise the limit on locked memory (ulimit -l), or take fewer --buffers");
  mappings_.push_back({at, next_, whole});
  next_ += (whole + piece - 1) / piece * piece;
  return request.iova;
}

std::vector<std::uint64_t> VfioBus::map_pages(std::byte* at, std::size_t bytes, std::size_t page_bytes) {
  const std::uint64_t bus = map(at, bytes);
  std::vector<std::uint64_t> pages;
  for (std::size_t done = 0; done < bytes; done += page_bytes) pages.push_back(bus + done);
  return pages;
}

void VfioBus::unmap(std::byte* at) noexcept {
  const auto it =
      std::find_if(mappings_.begin(), mappings_.end(), [&](const Mapping& m) { return m.at == at; });
  if (it == mappings_.end()) return;
  vfio_iommu_type1_dma_unmap request{};
  request.argsz = sizeof request;
  request.iova = it->bus;
  request.size = it->bytes;
  ioctl(container_.get(), VFIO_IOMMU_UNMAP_DMA, &request);
  mappings_.erase(it);
}

}  // namespace nanet::gateware

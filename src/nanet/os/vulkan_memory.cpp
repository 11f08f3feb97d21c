// SPDX-License-Identifier: Apache-2.0
#include "nanet/os/vulkan_memory.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace nanet::os {
namespace {

// Excerpt of the Vulkan 1.1 interface: structures and functions used below, with their ABI. The package needs
// no Vulkan headers.
namespace vk {

using Handle = void*;
using Memory = std::uint64_t;
using Function = void (*)();
using GetFunction = Function (*)(Handle, const char*);

enum Type : int {
  application_info = 0,
  instance_info = 1,
  queue_info = 2,
  device_info = 3,
  allocate_info = 5,
  properties_2 = 1000059001,
  id_properties = 1000071004,
  export_info = 1000072002,
  get_fd_info = 1000074002,
};
inline constexpr std::uint32_t opaque_fd = 1, version_1_1 = 1u << 22 | 1u << 12;
// device-local, host-visible, host-coherent
inline constexpr std::uint32_t bar_memory = 7;

struct ApplicationInfo {
  int type = application_info;
  const void* next = nullptr;
  const char* name = "nanet";
  std::uint32_t version = 1;
  const char* engine = "nanet";
  std::uint32_t engine_version = 1, api = version_1_1;
};
struct InstanceInfo {
  int type = instance_info;
  const void* next = nullptr;
  std::uint32_t flags = 0;
  const ApplicationInfo* application = nullptr;
  std::uint32_t layers = 0;
  const char* const* layer_names = nullptr;
  std::uint32_t extensions = 0;
  const char* const* extension_names = nullptr;
};
struct QueueInfo {
  int type = queue_info;
  const void* next = nullptr;
  std::uint32_t flags = 0, family = 0, count = 1;
  const float* priority = nullptr;
};
struct DeviceInfo {
  int type = device_info;
  const void* next = nullptr;
  std::uint32_t flags = 0, queues = 1;
  const QueueInfo* queue = nullptr;
  std::uint32_t layers = 0;
  const char* const* layer_names = nullptr;
  std::uint32_t extensions = 0;
  const char* const* extension_names = nullptr;
  const void* features = nullptr;
};
struct IdProperties {
  int type = id_properties;
  void* next = nullptr;
  std::uint8_t device[16], driver[16], luid[8];
  std::uint32_t node_mask, luid_valid;
};
struct Properties2 {
  int type = properties_2;
  void* next = nullptr;
  alignas(8) std::uint8_t properties[1024];  // VkPhysicalDeviceProperties has 824 B
};
struct MemoryProperties {
  std::uint32_t types;
  struct {
    std::uint32_t flags, heap;
  } type[32];
  std::uint32_t heaps;
  struct {
    std::uint64_t bytes;
    std::uint32_t flags;
  } heap[16];
};
struct AllocateInfo {
  int type = allocate_info;
  const void* next = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t memory_type = 0;
};
struct ExportInfo {
  int type = export_info;
  const void* next = nullptr;
  std::uint32_t handles = opaque_fd;
};
struct GetFdInfo {
  int type = get_fd_info;
  const void* next = nullptr;
  Memory memory = 0;
  std::uint32_t handle = opaque_fd;
};

}  // namespace vk

constexpr std::size_t granule = 65536;

// A loader, or the driver's own library where none is installed.
constexpr std::array libraries = {"libvulkan.so.1", "libGLX_nvidia.so.0", "libEGL_nvidia.so.0",
                                  "/usr/local/nvidia/lib64/libGLX_nvidia.so.0",
                                  "/usr/local/nvidia/lib64/libEGL_nvidia.so.0"};

template <class Result, class... Arguments>
struct Call {
  Result (*function)(Arguments...) = nullptr;
  explicit operator bool() const { return function != nullptr; }
  Result operator()(Arguments... arguments) const { return function(arguments...); }
};
template <class... Arguments>
Call<int, Arguments...> find(vk::GetFunction get, vk::Handle of, const char* name, int (*)(Arguments...)) {
  return {reinterpret_cast<int (*)(Arguments...)>(get(of, name))};
}
template <class... Arguments>
Call<void, Arguments...> find(vk::GetFunction get, vk::Handle of, const char* name, void (*)(Arguments...)) {
  return {reinterpret_cast<void (*)(Arguments...)>(get(of, name))};
}

}  // namespace

// Driver objects of one allocation. Its destructor releases what has been made.
struct VulkanMemory::Driver {
  vk::GetFunction get = nullptr, get_of_device = nullptr;
  vk::Handle instance = nullptr, device = nullptr;
  vk::Memory memory = 0;

  template <class Signature>
  auto of_instance(const char* name) const {
    return find(get, instance, name, static_cast<Signature*>(nullptr));
  }
  template <class Signature>
  auto of_device(const char* name) const {
    return find(get_of_device, device, name, static_cast<Signature*>(nullptr));
  }

  ~Driver() {
    if (memory)
      if (const auto free = of_device<void(vk::Handle, vk::Memory, const void*)>("vkFreeMemory"))
        free(device, memory, nullptr);
    if (device)
      if (const auto destroy = of_device<void(vk::Handle, const void*)>("vkDestroyDevice"))
        destroy(device, nullptr);
    if (instance)
      if (const auto destroy = of_instance<void(vk::Handle, const void*)>("vkDestroyInstance"))
        destroy(instance, nullptr);
  }

  // Opens the first library with a GPU; returns its physical devices. The libraries stay loaded.
  std::vector<vk::Handle> gpus() {
    for (const char* name : libraries) {
      void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (!library) continue;
      using Negotiate = int (*)(std::uint32_t*);
      if (const auto negotiate =
              reinterpret_cast<Negotiate>(dlsym(library, "vk_icdNegotiateLoaderICDInterfaceVersion"))) {
        std::uint32_t version = 5;
        negotiate(&version);
        get = reinterpret_cast<vk::GetFunction>(dlsym(library, "vk_icdGetInstanceProcAddr"));
      } else {
        get = reinterpret_cast<vk::GetFunction>(dlsym(library, "vkGetInstanceProcAddr"));
      }
      if (!get) continue;
      const vk::ApplicationInfo application;
      vk::InstanceInfo info;
      info.application = &application;
      const auto create =
          of_instance<int(const vk::InstanceInfo*, const void*, vk::Handle*)>("vkCreateInstance");
      if (!create || create(&info, nullptr, &instance) != 0) {
        instance = nullptr;
        continue;
      }
      const auto list =
          of_instance<int(vk::Handle, std::uint32_t*, vk::Handle*)>("vkEnumeratePhysicalDevices");
      std::uint32_t count = 0;
      if (list && list(instance, &count, nullptr) >= 0 && count) {
        std::vector<vk::Handle> found(count);
        if (list(instance, &count, found.data()) >= 0) {
          found.resize(count);
          return found;
        }
      }
      if (const auto destroy = of_instance<void(vk::Handle, const void*)>("vkDestroyInstance"))
        destroy(instance, nullptr);
      instance = nullptr;
    }
    return {};
  }
};

VulkanMemory::VulkanMemory() : driver_(std::make_unique<Driver>()) {}
VulkanMemory::~VulkanMemory() {
  if (fd_ >= 0) ::close(fd_);
}

int VulkanMemory::release_fd() noexcept {
  return std::exchange(fd_, -1);
}

std::unique_ptr<VulkanMemory> VulkanMemory::open(std::span<const std::uint8_t, 16> uuid, std::size_t bytes,
                                                 std::string& why) {
  std::unique_ptr<VulkanMemory> made(new VulkanMemory);
  Driver& d = *made->driver_;
  bytes = (bytes + granule - 1) / granule * granule;
  const auto fails = [&](const char* step) {
    why = step;
    return nullptr;
  };
  const std::vector<vk::Handle> gpus = d.gpus();
  if (gpus.empty()) return fails("no Vulkan driver with a GPU (Debian package libvulkan1, NVIDIA's driver)");
  const auto properties = d.of_instance<void(vk::Handle, vk::Properties2*)>("vkGetPhysicalDeviceProperties2");
  const auto memories =
      d.of_instance<void(vk::Handle, vk::MemoryProperties*)>("vkGetPhysicalDeviceMemoryProperties");
  if (!properties || !memories) return fails("Vulkan before 1.1");
  vk::Handle gpu = nullptr;
  for (const vk::Handle candidate : gpus) {
    vk::IdProperties id;
    vk::Properties2 all;
    all.next = &id;
    properties(candidate, &all);
    if (std::memcmp(id.device, uuid.data(), sizeof id.device) == 0) gpu = candidate;
  }
  if (!gpu) return fails("the GPU is no Vulkan device");
  vk::MemoryProperties types;
  memories(gpu, &types);
  int type = -1;
  for (std::uint32_t i = 0; i < types.types && i < 32 && type < 0; ++i)
    if ((types.type[i].flags & vk::bar_memory) == vk::bar_memory) type = static_cast<int>(i);
  if (type < 0) return fails("no memory that is both on the GPU and visible to the CPU");

  const float priority = 1;
  vk::QueueInfo queue;
  queue.priority = &priority;
  const char* const extension = "VK_KHR_external_memory_fd";
  vk::DeviceInfo info;
  info.queue = &queue;
  info.extensions = 1;
  info.extension_names = &extension;
  const auto create =
      d.of_instance<int(vk::Handle, const vk::DeviceInfo*, const void*, vk::Handle*)>("vkCreateDevice");
  d.get_of_device = reinterpret_cast<vk::GetFunction>(d.get(d.instance, "vkGetDeviceProcAddr"));
  if (!create || !d.get_of_device || create(gpu, &info, nullptr, &d.device) != 0) {
    d.device = nullptr;
    return fails("vkCreateDevice");
  }
  vk::ExportInfo exported;
  vk::AllocateInfo allocate;
  allocate.next = &exported;
  allocate.bytes = bytes;
  allocate.memory_type = static_cast<std::uint32_t>(type);
  const auto make =
      d.of_device<int(vk::Handle, const vk::AllocateInfo*, const void*, vk::Memory*)>("vkAllocateMemory");
  if (!make || make(d.device, &allocate, nullptr, &d.memory) != 0) {
    d.memory = 0;
    return fails("vkAllocateMemory");
  }
  void* host = nullptr;
  const auto map =
      d.of_device<int(vk::Handle, vk::Memory, std::uint64_t, std::uint64_t, std::uint32_t, void**)>(
          "vkMapMemory");
  if (!map || map(d.device, d.memory, 0, bytes, 0, &host) != 0) return fails("vkMapMemory");
  vk::GetFdInfo wanted;
  wanted.memory = d.memory;
  const auto get_fd = d.of_device<int(vk::Handle, const vk::GetFdInfo*, int*)>("vkGetMemoryFdKHR");
  if (!get_fd || get_fd(d.device, &wanted, &made->fd_) != 0) {
    made->fd_ = -1;
    return fails("vkGetMemoryFdKHR");
  }
  made->host_ = static_cast<std::byte*>(host);
  made->bytes_ = bytes;
  return made;
}

}  // namespace nanet::os

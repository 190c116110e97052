#pragma once

#include <memory>

#include "cleave/graph/type.h"
#include "cleave/kernels/array.h"
#include "cleave/pjrt/plugin.h"

namespace cleave::pjrt {

class Client;

// An array in the memory of a device. It may still be on its way there, or be computed; whoever
// reads it waits. It frees its memory when the last holder lets go, or when it is donated to a
// program.
class DeviceBuffer {
 public:
  // Takes a buffer of the plugin over.
  DeviceBuffer(std::shared_ptr<const Client> client, c::Buffer* buffer);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  c::Buffer* handle() const { return buffer_; }

  Array to_host() const;  // waits; row-major
  // Waits until it is computed. A program that failed says so here.
  void wait() const;
  bool is_deleted() const;  // it was given to a program, or freed by `free`
  void free();              // now, whoever holds it
  int64_t bytes_on_device() const;

 private:
  std::shared_ptr<const Client> client_;
  c::Buffer* buffer_;
  DType dtype_;
  Shape shape_;
};
using BufferPtr = std::shared_ptr<DeviceBuffer>;

}  // namespace cleave::pjrt

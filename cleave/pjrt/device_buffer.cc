#include "cleave/pjrt/device_buffer.h"

#include "cleave/pjrt/client.h"
#include "cleave/pjrt/dense_layout.h"
#include "cleave/pjrt/element_type.h"

namespace cleave::pjrt {

DeviceBuffer::DeviceBuffer(std::shared_ptr<const Client> client, c::Buffer* buffer)
    : client_(std::move(client)), buffer_(buffer) {
  const Plugin& plugin = client_->plugin();
  c::BufferElementType type;
  type.buffer = buffer_;
  plugin.call(type, "asking for the type of a buffer");
  const std::optional<DType> dtype = dtype_of(type.type);
  if (!dtype)
    throw_user("{}: made a buffer of elements of kind {}, which Cleave does not know",
               plugin.name(), type.type);
  dtype_ = *dtype;
  c::BufferDimensions dims;
  dims.buffer = buffer_;
  plugin.call(dims, "asking for the size of a buffer");
  shape_ = Shape(dims.dims, dims.dims + dims.num_dims);
}

DeviceBuffer::~DeviceBuffer() {
  c::BufferDestroy args;
  args.buffer = buffer_;
  client_->plugin().call_silently(args);
}

Array DeviceBuffer::to_host() const {
  Array array(dtype_, shape_);
  DenseLayout layout(shape_.size());
  c::BufferToHost args;
  args.buffer = buffer_;
  args.host_layout = layout.get();
  args.data = array.raw();
  args.data_size = array.num_bytes();
  client_->plugin().call(args, "reading a buffer");
  client_->plugin().await(args.event, "reading a buffer");
  return array;
}

void DeviceBuffer::wait() const {
  c::BufferReadyEvent args;
  args.buffer = buffer_;
  client_->plugin().call(args, "waiting for a buffer");
  client_->plugin().await(args.event, "running a program");
}

bool DeviceBuffer::is_deleted() const {
  c::BufferIsDeleted args;
  args.buffer = buffer_;
  client_->plugin().call(args, "asking whether a buffer is there");
  return args.is_deleted;
}

void DeviceBuffer::free() {
  c::BufferDelete args;
  args.buffer = buffer_;
  client_->plugin().call(args, "freeing a buffer");
}

int64_t DeviceBuffer::bytes_on_device() const {
  c::BufferOnDeviceSize args;
  args.buffer = buffer_;
  client_->plugin().call(args, "asking for the bytes of a buffer");
  return static_cast<int64_t>(args.bytes);
}

}  // namespace cleave::pjrt

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cleave/core/shard_layout.h"
#include "cleave/kernels/array.h"

// Files of Hugging Face's safetensors format: eight bytes with the length of the header, the header
// in JSON, the elements.
namespace cleave::train {

struct StoredTensor {
  DType dtype = DType::F32;
  Shape shape;
  uint64_t begin = 0, end = 0;  // bytes, from the first element of the file on
};

// "F32", "BF16", "F8_E4M3", ...; throws UserError if the format has no name for the dtype.
std::string safetensors_name(DType dtype);

// A file that is mapped into memory: only what is read comes from the disk. The constructor checks
// the whole header; it throws UserError, one line with the path, for a file that is cut short, for
// elements that overlap or leave gaps, and for sizes that do not fit.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const StoredTensor& at(const std::string& name) const;  // throws UserError

  // A copy of the elements; of a part, only its bytes are touched.
  Array read(const std::string& name) const;
  Array read(const std::string& name, const ShardSlice& part) const;
  // The same into an array at `to`, which has the dtype of the tensor and is contiguous.
  void read_into(const std::string& name, const ShardSlice& part, const Array& array,
                 const Shape& to) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<const std::byte> bytes_;
  uint64_t size_ = 0, data_ = 0;  // of the file; where elements begin
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// Written beside the target, brought to the disk, and renamed. Arrays are written in the order of
// their names.
void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, Array>& arrays,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace cleave::train

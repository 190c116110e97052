#include "cleave/train/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cleave/core/error.h"
#include "cleave/core/input_file.h"
#include "cleave/core/near_names.h"
#include "cleave/core/output_file.h"

namespace cleave::train {
namespace {

using nlohmann::json;

constexpr uint64_t kLargestHeader = 100'000'000;  // as other readers have it

struct DTypeName {
  DType dtype;
  const char* name;
};
constexpr std::array kDTypeNames = {
    DTypeName{DType::Bool, "BOOL"},
    DTypeName{DType::U8, "U8"},
    DTypeName{DType::I8, "I8"},
    DTypeName{DType::F8E5M2, "F8_E5M2"},
    DTypeName{DType::F8E4M3FN, "F8_E4M3"},
    DTypeName{DType::F8E8M0FNU, "F8_E8M0"},
    DTypeName{DType::F8E4M3FNUZ, "F8_E4M3FNUZ"},
    DTypeName{DType::F8E5M2FNUZ, "F8_E5M2FNUZ"},
    DTypeName{DType::I16, "I16"},
    DTypeName{DType::U16, "U16"},
    DTypeName{DType::F16, "F16"},
    DTypeName{DType::BF16, "BF16"},
    DTypeName{DType::I32, "I32"},
    DTypeName{DType::U32, "U32"},
    DTypeName{DType::F32, "F32"},
    DTypeName{DType::C64, "C64"},
    DTypeName{DType::F64, "F64"},
    DTypeName{DType::I64, "I64"},
    DTypeName{DType::U64, "U64"},
};

std::optional<DType> dtype_of(const std::string& name) {
  for (const DTypeName& known : kDTypeNames)
    if (name == known.name) return known.dtype;
  return std::nullopt;
}

template <typename... Args>
[[noreturn]] void damaged(const std::filesystem::path& path, fmt::format_string<Args...> format,
                          Args&&... args) {
  throw_user("{}: not a sound file of safetensors: {}", path.string(),
             fmt::format(format, std::forward<Args>(args)...));
}

std::shared_ptr<const std::byte> map_file(const std::filesystem::path& path, uint64_t& size) {
  check_regular_file(path.string());
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw_user("cannot read '{}': {}", path.string(), std::strerror(errno));
  struct stat status = {};
  if (fstat(file, &status) != 0) {
    const int error = errno;
    close(file);
    throw_user("cannot read '{}': {}", path.string(), std::strerror(error));
  }
  size = static_cast<uint64_t>(status.st_size);
  if (size < 8) {
    close(file);
    damaged(path, "it has {} bytes, fewer than the 8 that hold the length of its header", size);
  }
  void* bytes = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  close(file);
  if (bytes == MAP_FAILED) throw_user("cannot read '{}': {}", path.string(), std::strerror(error));
  return {static_cast<const std::byte*>(bytes),
          [size](const std::byte* p) { munmap(const_cast<std::byte*>(p), size); }};
}

json parse_header(const std::filesystem::path& path, const char* begin, const char* end) {
  std::set<std::string> names;
  std::string twice;
  auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (depth == 1 && event == json::parse_event_t::key)
      if (!names.insert(value.get<std::string>()).second) twice = value.get<std::string>();
    return true;
  };
  json header = json::parse(begin, end, watch, false);
  if (header.is_discarded() || !header.is_object()) damaged(path, "its header is not JSON");
  if (!twice.empty()) damaged(path, "its header names '{}' twice", twice);
  return header;
}

bool is_count(const json& value) { return value.is_number_unsigned(); }

StoredTensor parse_tensor(const std::filesystem::path& path, const std::string& name,
                          const json& entry) {
  const auto field = [&](const char* key) -> const json& {
    if (!entry.is_object() || !entry.contains(key))
      damaged(path, "the tensor '{}' has no '{}'", name, key);
    return entry[key];
  };
  const json &dtype = field("dtype"), &shape = field("shape"), &offsets = field("data_offsets");
  const auto counts = [](const json& list) {
    return list.is_array() && std::all_of(list.begin(), list.end(), is_count);
  };
  StoredTensor tensor;
  const auto known = dtype.is_string() ? dtype_of(dtype.get<std::string>()) : std::nullopt;
  if (!known) damaged(path, "the tensor '{}' is of the unknown type {}", name, dtype.dump());
  tensor.dtype = *known;
  if (!counts(shape)) damaged(path, "the tensor '{}' has the shape {}", name, shape.dump());
  if (!counts(offsets) || offsets.size() != 2)
    damaged(path, "the tensor '{}' has the offsets {}", name, offsets.dump());
  tensor.begin = offsets[0].get<uint64_t>();
  tensor.end = offsets[1].get<uint64_t>();
  uint64_t bytes = static_cast<uint64_t>(byte_size(tensor.dtype));
  for (const json& size : shape) {
    if (__builtin_mul_overflow(bytes, size.get<uint64_t>(), &bytes) || bytes > INT64_MAX)
      damaged(path, "the tensor '{}' of shape {} is too large", name, shape.dump());
    tensor.shape.push_back(size.get<int64_t>());
  }
  if (tensor.begin > tensor.end || tensor.end - tensor.begin != bytes)
    damaged(path, "the tensor '{}' of {} and shape {} takes {} bytes, and has the offsets {}", name,
            dtype.get<std::string>(), shape.dump(), bytes, offsets.dump());
  return tensor;
}

// Elements fill the rest of the file, one tensor after another.
void check_order(const std::filesystem::path& path,
                 const std::map<std::string, StoredTensor>& tensors, uint64_t data_bytes) {
  std::vector<std::pair<StoredTensor, std::string>> order;
  for (const auto& [name, tensor] : tensors) order.emplace_back(tensor, name);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.begin, a.first.end) < std::pair(b.first.begin, b.first.end);
  });
  uint64_t end = 0;
  std::string before;
  for (const auto& [tensor, name] : order) {
    if (tensor.begin < end) damaged(path, "the tensors '{}' and '{}' overlap", before, name);
    if (tensor.begin > end)
      damaged(path, "nothing lies in the bytes {} to {}, before the tensor '{}'", end, tensor.begin,
              name);
    end = tensor.end;
    before = name;
  }
  if (end > data_bytes)
    damaged(path, "it is cut short: its tensors take {} bytes, and it has {}", end, data_bytes);
  if (end < data_bytes) damaged(path, "{} bytes follow the last tensor", data_bytes - end);
}

// Rows of a box from one contiguous array to another.
struct BoxCopy {
  const std::byte* from;
  std::byte* to;
  const Shape *from_shape, *from_offset, *to_shape, *to_offset, *size;
  size_t element;

  void run(size_t dim, int64_t from_row, int64_t to_row) const {
    if (dim == size->size()) {  // a number
      std::memcpy(to + to_row * element, from + from_row * element, element);
      return;
    }
    from_row = from_row * (*from_shape)[dim] + (*from_offset)[dim];
    to_row = to_row * (*to_shape)[dim] + (*to_offset)[dim];
    if (is_whole_after(dim)) {
      int64_t row = 1;
      for (size_t d = dim + 1; d < size->size(); ++d) row *= (*size)[d];
      std::memcpy(to + to_row * row * element, from + from_row * row * element,
                  static_cast<size_t>((*size)[dim] * row) * element);
      return;
    }
    for (int64_t i = 0; i < (*size)[dim]; ++i) run(dim + 1, from_row + i, to_row + i);
  }

 private:
  bool is_whole_after(size_t dim) const {
    for (size_t d = dim + 1; d < size->size(); ++d)
      if ((*size)[d] != (*from_shape)[d] || (*size)[d] != (*to_shape)[d]) return false;
    return true;
  }
};

}  // namespace

std::string safetensors_name(DType dtype) {
  for (const DTypeName& known : kDTypeNames)
    if (dtype == known.dtype) return known.name;
  throw_user("files of safetensors have no type for {}; convert it first", name(dtype));
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
  bytes_ = map_file(path, size_);
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<uint64_t>(bytes_.get()[i]);
  if (length > kLargestHeader || length > size_ - 8)
    damaged(path, "its header is said to have {} bytes, and the file has {}", length, size_);
  data_ = 8 + length;
  const char* text = reinterpret_cast<const char*>(bytes_.get()) + 8;
  const json header = parse_header(path, text, text + length);
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") {
      tensors_[name] = parse_tensor(path, name, entry);
      continue;
    }
    if (!entry.is_object()) damaged(path, "its metadata is {}", entry.dump());
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) damaged(path, "its metadata '{}' is not text", key);
      metadata_[key] = value.get<std::string>();
    }
  }
  check_order(path, tensors_, size_ - data_);
}

const StoredTensor& SafetensorsFile::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw_user("{}: there is no tensor '{}'", path_.string(), name);
  return found->second;
}

Array SafetensorsFile::read(const std::string& name) const {
  const StoredTensor& tensor = at(name);
  return read(name, {Shape(tensor.shape.size(), 0), tensor.shape});
}

Array SafetensorsFile::read(const std::string& name, const ShardSlice& part) const {
  Array array(at(name).dtype, part.size);
  read_into(name, part, array, Shape(part.size.size(), 0));
  return array;
}

void SafetensorsFile::read_into(const std::string& name, const ShardSlice& part, const Array& array,
                                const Shape& to) const {
  const StoredTensor& tensor = at(name);
  internal_check(array.dtype() == tensor.dtype && array.is_contiguous(),
                 "a tensor is read into an array of another kind");
  for (int64_t size : part.size)
    if (size == 0) return;
  const BoxCopy copy{bytes_.get() + data_ + tensor.begin,
                     array.raw(),
                     &tensor.shape,
                     &part.offset,
                     &array.shape(),
                     &to,
                     &part.size,
                     static_cast<size_t>(byte_size(tensor.dtype))};
  copy.run(0, 0, 0);
}

void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, Array>& arrays,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<std::pair<std::string, Array>> order;
  for (const auto& [name, array] : arrays) {
    if (name == "__metadata__")
      throw_user("{}: a tensor cannot be called '__metadata__' in this format", path.string());
    order.emplace_back(name, array.contiguous());
  }
  // The widest elements come first, so that all are aligned.
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return byte_size(a.second.dtype()) > byte_size(b.second.dtype());
  });
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t begin = 0;
  for (const auto& [name, array] : order) {
    const uint64_t end = begin + array.num_bytes();
    header[name] = {{"dtype", safetensors_name(array.dtype())},
                    {"shape", std::vector<int64_t>(array.shape().begin(), array.shape().end())},
                    {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string head;
  for (int i = 0; i < 8; ++i) head += static_cast<char>(text.size() >> (8 * i) & 0xff);
  head += text;
  std::vector<std::string_view> parts{head};
  for (const auto& [name, array] : order)
    parts.emplace_back(reinterpret_cast<const char*>(array.raw()), array.num_bytes());
  write_file_to_disk(path, parts);
}

}  // namespace cleave::train

#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cleave/train/checkpoint.h"
#include "cleave/train/safetensors.h"

namespace cleave::train {

// A part of a tensor that lies in a file under a name of its own.
struct StoredPiece {
  size_t file = 0;
  std::string key;
  ShardSlice place;  // in the whole
};

struct StoredWhole {
  DType dtype = DType::F32;
  Shape shape;
  std::vector<StoredPiece> pieces;  // they do not overlap
};

// Tensors in one or several files, in any of the forms that load_safetensors takes.
class TensorStore {
 public:
  explicit TensorStore(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, StoredWhole>& tensors() const { return tensors_; }
  // A part of a tensor; other bytes are not touched.
  Array read(const std::string& name, const ShardSlice& part) const;

 private:
  void open_file(const std::filesystem::path& file);
  void open_hugging_face(const std::filesystem::path& index);
  void open_checkpoint(const std::filesystem::path& index);

  std::filesystem::path path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, StoredWhole> tensors_;
};

// The index of a checkpoint, as Checkpoints writes it.
inline constexpr const char* kIndexFile = "index.json";
struct CheckpointIndex {
  int64_t step = 0;
  std::vector<std::string> files;
  std::map<std::string, StoredWhole> tensors;
  PlainValues values;
};
std::string to_json(const CheckpointIndex& index);
// Throws UserError, one line with the path.
CheckpointIndex read_index(const std::filesystem::path& path);

// What a part of a tensor is called in its file: the name itself if it is the whole.
//   "params.w", "params.w@0,128"
std::string piece_key(const std::string& name, const Shape& shape, const ShardSlice& place);

}  // namespace cleave::train

#include "cleave/train/tensor_store.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "cleave/core/error.h"
#include "cleave/core/input_file.h"

namespace cleave::train {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kHuggingFaceIndex = "model.safetensors.index.json";
constexpr const char* kHuggingFaceFile = "model.safetensors";

// Where two boxes overlap; empty sizes if they do not.
ShardSlice common_part(const ShardSlice& a, const ShardSlice& b) {
  ShardSlice both;
  for (size_t d = 0; d < a.size.size(); ++d) {
    const int64_t begin = std::max(a.offset[d], b.offset[d]);
    const int64_t end = std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]);
    both.offset.push_back(begin);
    both.size.push_back(std::max<int64_t>(0, end - begin));
  }
  return both;
}

Shape moved(Shape offset, const Shape& origin) {
  for (size_t d = 0; d < offset.size(); ++d) offset[d] -= origin[d];
  return offset;
}

fs::path index_in(const fs::path& path) {
  if (!fs::is_directory(path)) return path;
  for (const char* name : {kIndexFile, kHuggingFaceIndex, kHuggingFaceFile})
    if (fs::exists(path / name)) return path / name;
  throw_user("the folder '{}' has none of {}, {} and {}", path.string(), kIndexFile,
             kHuggingFaceIndex, kHuggingFaceFile);
}

// A name in an index is that of a file beside it.
fs::path beside(const fs::path& index, const std::string& file) {
  const fs::path name = file;
  if (name.empty() || name != name.filename() || file == "..")
    throw_user("{}: '{}' is not the name of a file beside it", index.string(), file);
  return index.parent_path() / name;
}

}  // namespace

TensorStore::TensorStore(const fs::path& path) : path_(path) {
  const fs::path index = index_in(path);
  const std::string name = index.filename().string();
  if (name.ends_with(".index.json"))
    open_hugging_face(index);
  else if (name.ends_with(".json"))
    open_checkpoint(index);
  else
    open_file(index);
}

void TensorStore::open_file(const fs::path& file) {
  files_.push_back(std::make_unique<SafetensorsFile>(file));
  for (const auto& [name, tensor] : files_.back()->tensors()) {
    const auto [place, fresh] = tensors_.emplace(
        name,
        StoredWhole{tensor.dtype,
                    tensor.shape,
                    {{files_.size() - 1, name, {Shape(tensor.shape.size(), 0), tensor.shape}}}});
    if (!fresh)
      throw_user("{}: '{}' is in {} too", file.string(), name,
                 files_[place->second.pieces[0].file]->path().string());
  }
}

void TensorStore::open_hugging_face(const fs::path& index) {
  const json text = json::parse(read_input_file(index.string()), nullptr, false);
  if (!text.is_object() || !text.contains("weight_map") || !text["weight_map"].is_object())
    throw_user("{}: not an index of safetensors: it has no 'weight_map'", index.string());
  std::map<std::string, std::string> where;
  for (const auto& [name, file] : text["weight_map"].items()) {
    if (!file.is_string())
      throw_user("{}: the file of '{}' is {}", index.string(), name, file.dump());
    where[name] = file.get<std::string>();
  }
  std::set<std::string> files;
  for (const auto& [name, file] : where) files.insert(file);
  for (const std::string& file : files) open_file(beside(index, file));
  for (const auto& [name, file] : where) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end() ||
        files_[found->second.pieces[0].file]->path() != beside(index, file))
      throw_user("{}: the tensor '{}' is not in {}", index.string(), name, file);
  }
  // The index decides what belongs to the model.
  std::erase_if(tensors_, [&](const auto& tensor) { return !where.contains(tensor.first); });
}

void TensorStore::open_checkpoint(const fs::path& index) {
  CheckpointIndex read = read_index(index);
  for (const std::string& file : read.files)
    files_.push_back(std::make_unique<SafetensorsFile>(beside(index, file)));
  for (const auto& [name, whole] : read.tensors)
    for (const StoredPiece& piece : whole.pieces) {
      const StoredTensor& stored = files_.at(piece.file)->at(piece.key);
      if (stored.dtype != whole.dtype || stored.shape != piece.place.size)
        throw_user("{}: '{}' is a tensor<{}x{}>, and the index says tensor<{}x{}>",
                   files_[piece.file]->path().string(), piece.key, to_string(stored.shape),
                   cleave::name(stored.dtype), to_string(piece.place.size),
                   cleave::name(whole.dtype));
    }
  tensors_ = std::move(read.tensors);
}

Array TensorStore::read(const std::string& name, const ShardSlice& part) const {
  const StoredWhole& whole = tensors_.at(name);
  Array array(whole.dtype, part.size);
  int64_t found = 0;
  for (const StoredPiece& piece : whole.pieces) {
    const ShardSlice both = common_part(piece.place, part);
    const int64_t elements = num_elements(both.size);
    if (elements == 0) continue;
    files_[piece.file]->read_into(piece.key, {moved(both.offset, piece.place.offset), both.size},
                                  array, moved(both.offset, part.offset));
    found += elements;
  }
  if (found != num_elements(part.size))
    throw_user("{}: the parts of '{}' do not make up the whole: {} of {} elements are there",
               path_.string(), name, found, num_elements(part.size));
  return array;
}

}  // namespace cleave::train

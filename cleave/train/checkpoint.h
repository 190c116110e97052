#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cleave/train/name_map.h"
#include "cleave/train/safetensors.h"
#include "cleave/train/transformation.h"

// Trees of Tensors in files.
//
//   save_safetensors("model.safetensors", params);              // one file, whole tensors
//   params = load_safetensors("model.safetensors", params);     // laid out as `params` are
//
//   Checkpoints checkpoints("run1", {.keep = 3});               // a folder, sharded
//   checkpoints.save(100, state, {{"epoch", 2}});
//   if (checkpoints.latest()) state = checkpoints.load(state);
//
// A training is saved as one tree with names:
//
//   struct TrainState {
//     Model params; OptState opt; Tensor step, seed, position;
//     template <typename V> void visit(V&& v) { v("params", params); v("opt", opt); ... }
//   };
namespace cleave::train {

// Numbers and text that are saved beside Tensors.
using PlainValue = std::variant<bool, int64_t, double, std::string>;
using PlainValues = std::map<std::string, PlainValue>;
// Throw UserError, one line with the name, if there is no such value or it is of another kind.
int64_t integer_of(const PlainValues& values, const std::string& name);
double number_of(const PlainValues& values, const std::string& name);  // integers too
const std::string& text_of(const PlainValues& values, const std::string& name);

struct SaveOptions {
  std::vector<NameRule> names = {};  // as the file is to call them
  std::map<std::string, std::string> metadata = {};
};
struct LoadOptions {
  std::vector<NameRule> names = {};  // as the file calls them
  bool allow_missing = false;        // leaves that the file has not stay as they are
  bool allow_extra = false;          // tensors that no leaf takes are left alone
  bool convert = false;              // to the dtype of the leaf; otherwise another one is an error
};
// What a load did in this process.
struct LoadReport {
  int64_t bytes = 0;  // of elements that were copied from files
  std::vector<std::string> missing, extra;
};

void save_leaves(const std::filesystem::path& path, const NamedLeaves& leaves,
                 const SaveOptions& options);
std::vector<Tensor> load_leaves(const std::filesystem::path& path, const NamedLeaves& like,
                                const LoadOptions& options, LoadReport* report);

// One file with whole tensors; of several ranks, rank 0 writes it.
template <typename T>
void save_safetensors(const std::filesystem::path& path, const T& tree,
                      const SaveOptions& options = {}) {
  save_leaves(path, named_leaves(tree), options);
}

// The tree with leaves from a file: of the shapes, dtypes and layouts that `like` has, whose values
// are not read. Each device reads its own part only. The path is
//   a file of safetensors,
//   an index of several ("model.safetensors.index.json"),
//   a folder with one of them, or a folder that Checkpoints has made ("run1/step_000100").
template <typename T>
T load_safetensors(const std::filesystem::path& path, const T& like,
                   const LoadOptions& options = {}, LoadReport* report = nullptr) {
  return with_leaves(like, load_leaves(path, named_leaves(like), options, report));
}

struct CheckpointOptions {
  int64_t keep = 0;  // of the newest; 0: all
};

// A folder of checkpoints:
//
//   run1/latest                                  "step_000100"
//   run1/step_000100/index.json                  which tensor lies where; plain values
//   run1/step_000100/rank_00000.safetensors      the shards of each rank's devices, no part twice
//
// A checkpoint is written beside the others and renamed when every rank has finished, the index
// last: a save that is interrupted leaves the old ones as they were. All ranks make the same calls,
// over a folder that all of them see. A checkpoint is loaded on any mesh, by any number of ranks.
class Checkpoints {
 public:
  explicit Checkpoints(std::filesystem::path folder, CheckpointOptions options = {});

  template <typename T>
  void save(int64_t step, const T& tree, const PlainValues& values = {}) const {
    save_step(step, named_leaves(tree), values);
  }
  // Of the latest checkpoint, or of a step. Throws UserError if there is none.
  template <typename T>
  T load(const T& like, std::optional<int64_t> step = {}, const LoadOptions& options = {},
         LoadReport* report = nullptr) const {
    return load_safetensors(folder_of(step), like, options, report);
  }
  PlainValues values(std::optional<int64_t> step = {}) const;

  std::vector<int64_t> steps() const;  // of complete checkpoints, in order
  std::optional<int64_t> latest() const;
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path folder_of(std::optional<int64_t> step = {}) const;

 private:
  void save_step(int64_t step, const NamedLeaves& leaves, const PlainValues& values) const;

  void finish(int64_t step, const std::filesystem::path& partial, const std::string& index) const;

  std::filesystem::path folder_;
  CheckpointOptions options_;
};

}  // namespace cleave::train

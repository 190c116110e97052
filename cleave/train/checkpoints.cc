#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <system_error>

#include "cleave/core/error.h"
#include "cleave/core/input_file.h"
#include "cleave/core/output_file.h"
#include "cleave/runtime/world.h"
#include "cleave/spmd/transfer.h"
#include "cleave/train/checkpoint.h"
#include "cleave/train/rank_agreement.h"
#include "cleave/train/tensor_store.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLatest = "latest";

std::string step_name(int64_t step) { return fmt::format("step_{:06}", step); }

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with("step_")) return std::nullopt;
  int64_t step = 0;
  const char *begin = name.data() + 5, *end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(begin, end, step);
  if (error != std::errc() || stop != end || step < 0 || step_name(step) != name)
    return std::nullopt;
  return step;
}

// Which rank writes which part, decided by every rank for itself in the same way: of the ranks that
// hold a part, the one that has the least to write so far.
class Division {
 public:
  Division() : bytes_(static_cast<size_t>(number_of_ranks())) {}

  StoredWhole divide(const std::string& name, const Tensor& leaf) {
    StoredWhole whole{leaf.dtype(), leaf.shape(), {}};
    if (!leaf.mesh()) {
      std::vector<int> all(bytes_.size());
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
      add(whole, name, {Shape(leaf.shape().size(), 0), leaf.shape()}, all);
      return whole;
    }
    const Layout layout{leaf.sharding(), nullptr};
    const DeviceBlocks blocks{leaf.mesh()->num_devices(), static_cast<int>(bytes_.size())};
    std::map<std::pair<std::vector<int64_t>, std::vector<int64_t>>, std::vector<int>> holders;
    for (int64_t device = 0; device < blocks.devices; ++device) {
      const ShardSlice box = layout.box(leaf.shape(), device);
      if (num_elements(box.size) == 0) continue;
      holders[{{box.offset.begin(), box.offset.end()}, {box.size.begin(), box.size.end()}}]
          .push_back(blocks.rank_of(device));
    }
    for (const auto& [box, ranks] : holders)
      add(whole, name,
          {Shape(box.first.begin(), box.first.end()), Shape(box.second.begin(), box.second.end())},
          ranks);
    return whole;
  }

 private:
  void add(StoredWhole& whole, const std::string& name, const ShardSlice& box,
           const std::vector<int>& ranks) {
    const int least = *std::min_element(ranks.begin(), ranks.end(), [&](int a, int b) {
      return bytes_[static_cast<size_t>(a)] < bytes_[static_cast<size_t>(b)];
    });
    const auto file = static_cast<size_t>(least);
    bytes_[file] += num_elements(box.size) * byte_size(whole.dtype);
    whole.pieces.push_back({file, piece_key(name, whole.shape, box), box});
  }

  std::vector<int64_t> bytes_;  // by rank
};

// The parts that this rank writes.
std::map<std::string, Array> own_arrays(const CheckpointIndex& index, const NamedLeaves& leaves,
                                        int rank) {
  std::map<std::string, Array> arrays;
  for (size_t i = 0; i < leaves.size(); ++i) {
    std::vector<TensorShard> shards;
    for (const StoredPiece& piece : index.tensors.at(leaves.names[i]).pieces) {
      if (piece.file != static_cast<size_t>(rank)) continue;
      if (shards.empty()) shards = leaves.values[i].addressable_shards();
      const auto shard = std::find_if(shards.begin(), shards.end(), [&](const TensorShard& own) {
        return own.index == piece.place;
      });
      if (shard == shards.end()) throw_internal("a rank does not hold '{}'", piece.key);
      arrays[piece.key] = shard->data;
    }
  }
  return arrays;
}

// Pending sums are completed.
NamedLeaves complete(NamedLeaves leaves) {
  for (Tensor& leaf : leaves.values)
    if (leaf.sharding().is_partial()) {
      ShardingSpec spec = leaf.sharding();
      spec.partial.clear();
      leaf = leaf.with_sharding(spec);
    }
  evaluate(leaves.values);
  return leaves;
}

void check_values(const PlainValues& values) {
  for (const auto& [name, value] : values)
    if (const double* number = std::get_if<double>(&value))
      if (!std::isfinite(*number))
        throw_user("the value '{}' of a checkpoint is {}, which JSON cannot hold", name, *number);
}

[[noreturn]] void fail_with(const fs::path& path, const std::error_code& error) {
  throw_user("{}: cannot be written: {}", path.string(), error.message());
}

void remove_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) fail_with(folder, error);
}

// What interrupted saves left.
void remove_partial(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".step_") && name.ends_with(".partial")) remove_folder(entry.path());
  }
}

// The folder gets its name; one that had it before changes places with it, and is removed.
void publish(const fs::path& partial, const fs::path& final) {
  if (!fs::exists(final)) {
    if (std::rename(partial.c_str(), final.c_str()) != 0)
      fail_with(final, std::error_code(errno, std::generic_category()));
    return;
  }
  if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) != 0)
    fail_with(final, std::error_code(errno, std::generic_category()));
  remove_folder(partial);
}

}  // namespace

Checkpoints::Checkpoints(fs::path folder, CheckpointOptions options)
    : folder_(std::move(folder)), options_(options) {
  if (options_.keep < 0)
    throw_user("checkpoints in '{}': {} of them are to be kept; 0 keeps all", folder_.string(),
               options_.keep);
}

std::vector<int64_t> Checkpoints::steps() const {
  std::vector<int64_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error))
    if (const auto step = step_of(entry.path().filename().string()))
      if (fs::exists(entry.path() / kIndexFile)) found.push_back(*step);
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<int64_t> Checkpoints::latest() const {
  const std::vector<int64_t> all = steps();
  if (all.empty()) return std::nullopt;
  if (fs::exists(folder_ / kLatest)) {
    std::string name = read_input_file((folder_ / kLatest).string());
    while (!name.empty() && name.back() == '\n') name.pop_back();
    const auto step = step_of(name);
    if (step && std::binary_search(all.begin(), all.end(), *step)) return step;
  }
  return all.back();
}

fs::path Checkpoints::folder_of(std::optional<int64_t> step) const {
  const std::vector<int64_t> all = steps();
  if (!step) step = latest();
  if (!step) throw_user("there is no checkpoint in '{}'", folder_.string());
  if (!std::binary_search(all.begin(), all.end(), *step))
    throw_user("there is no checkpoint of step {} in '{}'; there are {}", *step, folder_.string(),
               all.empty()
                   ? "none"
                   : fmt::format("{} of them, the last of step {}", all.size(), all.back()));
  return folder_ / step_name(*step);
}

PlainValues Checkpoints::values(std::optional<int64_t> step) const {
  return read_index(folder_of(step) / kIndexFile).values;
}

void Checkpoints::save_step(int64_t step, const NamedLeaves& given,
                            const PlainValues& values) const {
  if (step < 0) throw_user("a checkpoint of step {}; steps begin at 0", step);
  check_values(values);
  const NamedLeaves leaves = complete(given);
  CheckpointIndex index{step, {}, {}, values};
  for (int rank = 0; rank < number_of_ranks(); ++rank)
    index.files.push_back(fmt::format("rank_{:05}.safetensors", rank));
  Division division;
  for (size_t i = 0; i < leaves.size(); ++i) {
    safetensors_name(leaves.values[i].dtype());
    if (!index.tensors.emplace(leaves.names[i], division.divide(leaves.names[i], leaves.values[i]))
             .second)
      throw_user("two leaves of a checkpoint are called '{}'", leaves.names[i]);
  }
  const fs::path partial = folder_ / ("." + step_name(step) + ".partial");
  together("the saving of a checkpoint", [&](int rank) {
    if (rank != 0) return;
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) fail_with(folder_, error);
    remove_partial(folder_);
    fs::create_directory(partial, error);
    if (error) fail_with(partial, error);
  });
  together("the saving of a checkpoint", [&](int rank) {
    write_safetensors(partial / index.files[static_cast<size_t>(rank)],
                      own_arrays(index, leaves, rank));
  });
  together("the saving of a checkpoint", [&](int rank) {
    if (rank == 0) finish(step, partial, to_json(index));
  });
}

// The index comes last; then the folder gets its name, and the others learn of it.
void Checkpoints::finish(int64_t step, const fs::path& partial, const std::string& index) const {
  const std::string_view text = index;
  write_file_to_disk(partial / kIndexFile, {&text, 1});
  publish(partial, folder_ / step_name(step));
  sync_folder(folder_);
  const std::string name = step_name(step) + "\n";
  const std::string_view pointer = name;
  write_file_to_disk(folder_ / kLatest, {&pointer, 1});
  if (options_.keep == 0) return;
  std::vector<int64_t> all = steps();
  std::erase(all, step);  // the one just saved stays, whatever its number
  const int64_t most = options_.keep - 1;
  for (int64_t i = 0; i + most < static_cast<int64_t>(all.size()); ++i) {
    // Under a name that is no checkpoint's, so that half of one is never taken for a whole.
    const fs::path old = folder_ / step_name(all[static_cast<size_t>(i)]);
    const fs::path gone = folder_ / ("." + old.filename().string() + ".partial");
    std::error_code error;
    fs::rename(old, gone, error);
    if (error) fail_with(old, error);
    remove_folder(gone);
  }
}

}  // namespace cleave::train

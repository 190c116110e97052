#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/sharding.h"
#include "cleave/kernels/array.h"
#include "cleave/runtime/tensor.h"
#include "cleave/train/tokens.h"

// Batches of tokens for training. What batch n is follows from the files, the options and n alone:
// a run that begins again at step n needs to keep nothing but n.
//
//   const Dataset data = open_dataset({"books.bin", "code.bin"}, {.length = 512});
//   const Batches batches(data, {.batch = 64, .seed = 1});
//   Tensor tokens = batches.tensor(step);                         // [64, 512] of i32
//   Tensor mine = batches.tensor(step, spec);                     // a process reads what it owns
namespace cleave::train {

// A permutation of 0 .. size - 1 that is computed, not stored: a Feistel network over the next
// power of four, walked until the number is below `size`.
//   Permutation(5, key): at(0..4) are 0..4 in another order; another key gives another order
class Permutation {
 public:
  Permutation(int64_t size, uint64_t key);
  int64_t at(int64_t index) const;

 private:
  int64_t size_;
  uint64_t key_;
  int half_bits_;
};

struct SampleOptions {
  int64_t length = 0;  // tokens of a sample
  int64_t extra = 0;   // further tokens after them, shared with the next sample: 1 for targets
  int64_t vocab = 1LL << 31;  // tokens at and above it are an error
  // The part of each file that this set has: [begin, end) of 1. A split into {0, 0.9} and {0.9, 1}
  // has no token in common.
  double begin = 0, end = 1;
};

// Samples of `length + extra` tokens, one after the other in each file; what is left at the end of
// a file's part is not used.
class Dataset {
 public:
  Dataset(std::vector<TokenFile> files, const SampleOptions& options);

  int64_t num_samples() const { return first_.back(); }
  int64_t num_tokens() const { return num_samples() * options_.length; }
  int64_t width() const { return options_.length + options_.extra; }
  const SampleOptions& options() const { return options_; }
  // Tokens [begin, begin + out.size()) of a sample.
  void read(int64_t sample, int64_t begin, std::span<int32_t> out) const;

 private:
  std::vector<TokenFile> files_;
  SampleOptions options_;
  std::vector<int64_t> first_;  // samples before each file, and of all
  std::vector<int64_t> start_;  // the first token of each file's part
};

// Throws UserError that names the file that is missing, empty or shorter than a sample.
Dataset open_dataset(const std::vector<std::string>& files, const SampleOptions& options);

struct BatchOptions {
  int64_t batch = 8;
  uint64_t seed = 0;
  bool shuffle = true;  // every epoch in an order of its own; off: as in the files
  // More than one: a batch is [parts, batch / parts, width], for gradients that are accumulated.
  int64_t parts = 1;
};

class Batches {
 public:
  // Throws UserError if there are fewer samples than one batch takes.
  Batches(Dataset data, const BatchOptions& options);

  int64_t per_epoch() const { return data_.num_samples() / options_.batch; }
  int64_t epoch_of(int64_t step) const { return step / per_epoch(); }
  Shape shape() const;
  const Dataset& data() const { return data_; }
  // The sample in a row of batch `step`.
  int64_t sample(int64_t step, int64_t row) const;

  // A part of batch `step`, i32, and the whole of it.
  Array read(int64_t step, const ShardSlice& part) const;
  Array read(int64_t step) const { return read(step, {Shape(shape().size()), shape()}); }
  // By device, what the devices of this process hold of the batch under a layout; other devices
  // have invalid arrays. Devices that hold the same part share it.
  std::vector<Array> read_shards(int64_t step, const ShardingSpec& spec) const;
  // A tensor on one device, or laid out over a mesh.
  Tensor tensor(int64_t step, const std::optional<ShardingSpec>& spec = std::nullopt) const;

 private:
  Dataset data_;
  BatchOptions options_;
};

}  // namespace cleave::train

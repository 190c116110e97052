#include "cleave/train/data.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cleave/core/error.h"
#include "cleave/runtime/world.h"

namespace cleave::train {
namespace {

// SplitMix64's finisher: every bit of the result depends on every bit of x.
uint64_t scrambled(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

constexpr int kRounds = 6;

}  // namespace

Permutation::Permutation(int64_t size, uint64_t key) : size_(size), key_(key), half_bits_(1) {
  if (size < 1) throw_user("a permutation of {} numbers: there must be at least one", size);
  while (2 * half_bits_ < 62 && (int64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
}

int64_t Permutation::at(int64_t index) const {
  if (index < 0 || index >= size_)
    throw_user("a permutation of {} numbers has none at {}", size_, index);
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<uint64_t>(index);
  // At most three of four numbers are beyond the size, so that few walks are long.
  do {
    uint64_t left = value >> half_bits_, right = value & mask;
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t mixed =
          scrambled(key_ ^ scrambled(right + (static_cast<uint64_t>(round) << 56)));
      left = std::exchange(right, (left ^ mixed) & mask);
    }
    value = (left << half_bits_) | right;
  } while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

Dataset::Dataset(std::vector<TokenFile> files, const SampleOptions& options)
    : files_(std::move(files)), options_(options), first_{0} {
  if (files_.empty()) throw_user("training needs a file of tokens");
  if (options.length < 1 || options.extra < 0)
    throw_user("samples of {} tokens and {} more: they need at least one", options.length,
               options.extra);
  if (!(options.begin >= 0 && options.begin < options.end && options.end <= 1))
    throw_user("the part [{}, {}) of a file: it must be inside of [0, 1) and not empty",
               options.begin, options.end);
  for (const TokenFile& file : files_) {
    const auto size = static_cast<double>(file.size());
    const auto begin = static_cast<int64_t>(std::llround(options.begin * size));
    const auto end = static_cast<int64_t>(std::llround(options.end * size));
    if (file.size() < width())
      throw_user("'{}' has {} tokens, and a sample takes {}; shorten --length, or take more text",
                 file.name(), file.size(), width());
    start_.push_back(begin);
    first_.push_back(first_.back() +
                     std::max<int64_t>(0, (end - begin - options.extra) / options.length));
  }
  if (num_samples() == 0)
    throw_user(
        "the part [{}, {}) of '{}'{} has no sample of {} tokens; shorten --length, or make "
        "the part larger",
        options.begin, options.end, files_[0].name(),
        files_.size() > 1 ? fmt::format(" and {} more files", files_.size() - 1) : "", width());
}

void Dataset::read(int64_t sample, int64_t begin, std::span<int32_t> out) const {
  if (sample < 0 || sample >= num_samples())
    throw_user("there are {} samples, and none at {}", num_samples(), sample);
  const auto file = static_cast<size_t>(std::upper_bound(first_.begin(), first_.end(), sample) -
                                        first_.begin() - 1);
  const int64_t at = start_[file] + (sample - first_[file]) * options_.length + begin;
  files_[file].read(at, out, options_.vocab);
}

Dataset open_dataset(const std::vector<std::string>& files, const SampleOptions& options) {
  std::vector<TokenFile> opened;
  for (const std::string& file : files) opened.emplace_back(file);
  return {std::move(opened), options};
}

Batches::Batches(Dataset data, const BatchOptions& options)
    : data_(std::move(data)), options_(options) {
  if (options.batch < 1) throw_user("a batch of {}: it must have at least one row", options.batch);
  if (options.parts < 1 || options.batch % options.parts != 0)
    throw_user("{} parts of a batch of {}: they must divide it", options.parts, options.batch);
  if (per_epoch() < 1)
    throw_user(
        "there are {} samples of {} tokens, fewer than a batch of {} takes; make the batch or the "
        "samples smaller, or take more text",
        data_.num_samples(), data_.width(), options.batch);
}

int64_t Batches::sample(int64_t step, int64_t row) const {
  if (step < 0) throw_user("there is no batch {}", step);
  const int64_t place = step % per_epoch() * options_.batch + row;
  if (!options_.shuffle) return place;
  const uint64_t key = scrambled(scrambled(options_.seed) ^ static_cast<uint64_t>(epoch_of(step)));
  return Permutation(data_.num_samples(), key).at(place);
}

Shape Batches::shape() const {
  if (options_.parts == 1) return {options_.batch, data_.width()};
  return {options_.parts, options_.batch / options_.parts, data_.width()};
}

Array Batches::read(int64_t step, const ShardSlice& part) const {
  Array result(DType::I32, part.size);
  auto* out = result.data<int32_t>();
  const size_t rank = part.size.size();
  const auto width = static_cast<size_t>(part.size[rank - 1]);
  const int64_t rows = part.size[rank - 2], first = part.offset[rank - 2];
  const int64_t begin = rank == 3 ? part.offset[0] : 0;
  const int64_t end = rank == 3 ? begin + part.size[0] : 1;
  for (int64_t each = begin; each < end; ++each)
    for (int64_t i = 0; i < rows; ++i, out += width) {
      const int64_t row = each * (options_.batch / options_.parts) + first + i;
      data_.read(sample(step, row), part.offset[rank - 1], {out, width});
    }
  return result;
}

std::vector<Array> Batches::read_shards(int64_t step, const ShardingSpec& spec) const {
  const int64_t devices = spec.mesh->num_devices();
  std::vector<int64_t> own(static_cast<size_t>(devices));
  for (int64_t device = 0; device < devices; ++device) own[static_cast<size_t>(device)] = device;
  if (const World* world = World::of_process()) own = world->devices_of(*spec.mesh);
  std::vector<Array> shards(static_cast<size_t>(devices));
  std::map<std::pair<Shape, Shape>, Array> parts;
  for (int64_t device : own) {
    const ShardSlice part = shard_slice(spec, shape(), device);
    Array& array = parts[{part.offset, part.size}];
    if (!array.valid()) array = read(step, part);
    shards[static_cast<size_t>(device)] = array;
  }
  return shards;
}

Tensor Batches::tensor(int64_t step, const std::optional<ShardingSpec>& spec) const {
  if (!spec || !spec->mesh) return Tensor::from(read(step));
  return Tensor::from_shards(read_shards(step, *spec), shape(), *spec);
}

}  // namespace cleave::train

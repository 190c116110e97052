#include "cleave/discover/more_samples.h"

#include <algorithm>
#include <map>
#include <set>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"
#include "cleave/discover/inputs.h"

namespace cleave {
namespace {

constexpr size_t kRank = 3;  // tells what comes before a dimension from what comes after it

bool have_one_shape(const Sample& sample) {
  return !sample.operands.empty() && !sample.operands[0].shape.empty() &&
         std::all_of(sample.operands.begin(), sample.operands.end(), [&](const TensorDesc& desc) {
           return desc.shape == sample.operands[0].shape && desc.domain == Domain::Any;
         });
}

bool accepts(const Operator& op, const Sample& sample) {
  NumberStream random(0);
  std::vector<Array> operands;
  for (const TensorDesc& desc : sample.operands)
    operands.push_back(make_input(default_generators().front(), desc, random, operands.size()));
  try {
    op.run(sample.attrs, operands);
    return true;
  } catch (const BrokenOperator&) {
    throw;
  } catch (const UserError&) {
    return false;
  }
}

// A dimension that some numbers of devices may split and others may not.
struct OpenDim {
  bool is_told = false;       // by unequal shards of which none is empty
  bool is_even_told = false;  // by equal shards of more than one element
  size_t sample = 0;
  int64_t size = 0;
};

// By the number of the dimension.
std::map<int, OpenDim> open_dims(const Discovery& discovery) {
  std::map<int, OpenDim> dims;
  for (size_t s = 0; s < discovery.samples.size(); ++s)
    for (const Decision& decision : discovery.samples[s].decisions) {
      if (decision.verdict.valid() || decision.worlds.empty()) continue;
      const std::vector<Placement>& row = decision.combination.operands;
      const auto split = std::ranges::find_if(row, &Placement::is_shard);
      if (split == row.end()) continue;
      const Shape& shape =
          discovery.samples[s].sample.operands[static_cast<size_t>(split - row.begin())].shape;
      const int64_t size = shape[static_cast<size_t>(split->dim)];
      OpenDim& dim = dims.try_emplace(split->dim, OpenDim{false, false, s, size}).first->second;
      for (const WorldVerdict& world : decision.by_world) {
        dim.is_told |= size % world.w != 0 && chunk_of(size, world.w, world.w - 1).size > 0;
        dim.is_even_told |= size % world.w == 0 && size > world.w;
      }
    }
  return dims;
}

}  // namespace

std::vector<Sample> samples_with_uneven_shards(const Operator& op, const Discovery& discovery) {
  constexpr size_t kMost = 2;
  if (op.define || op.localize || !op.shape_attr.empty()) return {};
  std::map<size_t, std::set<int64_t>> sizes;  // by sample
  for (const auto& [d, dim] : open_dims(discovery))
    if (!dim.is_told || !dim.is_even_told) sizes[dim.sample].insert(dim.size);
  std::vector<Sample> more;
  for (const auto& [index, of_sample] : sizes) {
    Sample sample = discovery.samples[index].sample;
    for (TensorDesc& desc : sample.operands)
      for (int64_t& size : desc.shape) size += of_sample.contains(size) ? 1 : 0;
    if (more.size() < kMost && accepts(op, sample)) more.push_back(std::move(sample));
  }
  return more;
}

void add_samples_of_other_ranks(Operator& op) {
  if (op.dim_attrs.size() != 1 || op.samples.empty()) return;
  const std::string& name = op.dim_attrs.front();
  std::set<std::string> known;
  std::set<int64_t> dims;
  std::set<size_t> ranks;
  for (const Sample& sample : op.samples) {
    const auto it = sample.attrs.find(name);
    const auto* dim = it == sample.attrs.end() ? nullptr : std::get_if<int64_t>(&it->second);
    if (!dim || !have_one_shape(sample)) return;
    const auto rank = static_cast<int64_t>(sample.operands[0].shape.size());
    ranks.insert(static_cast<size_t>(rank));
    dims.insert(*dim < 0 ? *dim + rank : *dim);
    known.insert(to_string(sample));
  }
  if (*ranks.rbegin() >= kRank && dims.size() > 1) return;
  std::vector<Sample> more;
  for (Sample sample : op.samples) {
    for (size_t rank = sample.operands[0].shape.size(); rank < kRank; ++rank)
      for (TensorDesc& desc : sample.operands) desc.shape.push_back(rank == 1 ? 4 : 3);
    if (sample.operands[0].shape.size() != kRank) continue;
    for (int64_t dim = 0; dim < static_cast<int64_t>(kRank); ++dim) {
      sample.attrs[name] = dim;
      if (known.insert(to_string(sample)).second && accepts(op, sample)) more.push_back(sample);
    }
  }
  op.samples.insert(op.samples.end(), more.begin(), more.end());
}

}  // namespace cleave

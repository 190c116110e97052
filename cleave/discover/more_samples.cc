#include "cleave/discover/more_samples.h"

#include <algorithm>
#include <set>

#include "cleave/core/error.h"
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
    operands.push_back(make_input(default_generators().front(), desc, random));
  try {
    op.run(sample.attrs, operands);
    return true;
  } catch (const BrokenOperator&) {
    throw;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

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

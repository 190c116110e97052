#include <algorithm>
#include <cmath>
#include <set>

#include "cleave/core/error.h"
#include "cleave/discover/engine.h"
#include "cleave/kernels/combine.h"

namespace cleave {
namespace {

bool still_refuted(const Operator& op, Witness& witness) {
  const TrialResult result = run_trial(op, witness.sample, witness.combination,
                                       {witness.w, witness.operands, witness.devices});
  if (result.rejected || result.match != Match::No) return false;
  witness.element = result.detail.element;
  witness.expected = result.detail.expected;
  witness.actual = result.detail.actual;
  return true;
}

// Fresh inputs of the sample's shapes: small integers first, then any generator and decomposition.
bool find_refutation(const Operator& op, Witness& witness) {
  const std::vector<InputGenerator> generators = default_generators();
  for (size_t g = 0; g < generators.size(); ++g) {
    for (int how = 0; how < kNumDecompositions; ++how) {
      NumberStream random(g * 31 + static_cast<uint64_t>(how));
      Witness candidate = witness;
      candidate.operands.clear();
      candidate.devices.clear();
      bool usable = true;
      for (size_t i = 0; i < witness.sample.operands.size(); ++i) {
        const TensorDesc desc = witness.sample.operands[i];
        if (generators[g].floats_only && !has_fractions(desc.dtype)) usable = false;
        candidate.operands.push_back(make_input(generators[g], desc, random, i));
        auto devices = represent(candidate.operands.back(), witness.combination.operands[i],
                                 witness.w, static_cast<Decomposition>(how), random);
        if (!devices) usable = false;
        if (!usable) break;
        candidate.devices.push_back(std::move(*devices));
      }
      if (!usable || !still_refuted(op, candidate)) continue;
      witness = std::move(candidate);
      return true;
    }
  }
  return false;
}

// Replaces every dimension of one size by another size, in all operands at once, so that dimensions
// that must agree go on agreeing.
Sample with_size(Sample sample, int64_t from, int64_t to) {
  for (TensorDesc& desc : sample.operands)
    std::replace(desc.shape.begin(), desc.shape.end(), from, to);
  return sample;
}

bool shrink_shapes(const Operator& op, Witness& witness) {
  std::set<int64_t> sizes;
  for (const TensorDesc& desc : witness.sample.operands)
    sizes.insert(desc.shape.begin(), desc.shape.end());
  for (auto it = sizes.rbegin(); it != sizes.rend(); ++it) {
    for (int64_t smaller = 1; smaller < *it; ++smaller) {
      Witness candidate = witness;
      candidate.sample = with_size(witness.sample, *it, smaller);
      if (!find_refutation(op, candidate)) continue;
      witness = std::move(candidate);
      return true;
    }
  }
  return false;
}

bool shrink_world(const Operator& op, Witness& witness) {
  for (int w = 2; w < witness.w; ++w) {
    Witness candidate = witness;
    candidate.w = w;
    if (!find_refutation(op, candidate)) continue;
    witness = std::move(candidate);
    return true;
  }
  return false;
}

// Doubles hold the numbers as they are.
bool is_exact(const Array& array) {
  return !is_integer(array.dtype()) || magnitude(array) < 0x1p53;
}

// What integers are together, which wraps around.
Array combined(const std::vector<Array>& parts, ReduceOp op) {
  std::vector<const std::byte*> raw;
  for (const Array& part : parts) raw.push_back(part.raw());
  Array total(parts[0].dtype(), parts[0].shape());
  combine_parts(op, total.dtype(), raw, total.raw(), 0, total.num_elements());
  return total;
}

// Simpler numbers, element by element: zero, one, a small whole number. A sharded or replicated
// operand changes as a whole; the parts of a partial one change in pairs that keep the value out of
// it: the value is what the parts say.
bool simplify_numbers(const Operator& op, Witness& witness) {
  bool changed = false;
  for (size_t i = 0; i < witness.operands.size(); ++i) {
    const TensorDesc desc = witness.sample.operands[i];
    const Placement placement = witness.combination.operands[i];
    if (placement.is_partial() || desc.domain == Domain::Sorted) continue;
    if (!is_exact(witness.operands[i])) continue;
    std::vector<double> numbers = to_doubles(witness.operands[i]);
    for (double& x : numbers) {
      const double before = x;
      for (double simple : {0.0, 1.0, -1.0, 2.0, std::round(before)}) {
        if (simple == before) break;
        if (simple < 0 && is_unsigned_integer(desc.dtype)) continue;
        if (desc.domain == Domain::Positive && simple < 0) continue;
        if ((desc.domain == Domain::Bool || desc.dtype == DType::Bool ||
             desc.domain == Domain::Index) &&
            (simple < 0 || simple > std::max(before, 1.0)))
          continue;
        if (simple == 0 && (desc.domain == Domain::NonZero || desc.domain == Domain::Positive))
          continue;
        x = simple;
        Witness candidate = witness;
        candidate.operands[i] = from_doubles(desc.dtype, desc.shape, numbers);
        NumberStream random(0);
        candidate.devices[i] =
            *represent(candidate.operands[i], placement, witness.w, Decomposition::Equal, random);
        if (still_refuted(op, candidate)) {
          witness = std::move(candidate);
          changed = true;
          break;
        }
        x = before;
      }
    }
  }
  return changed;
}

// The parts of a sum that is partial, made whole or zero, with the value following them.
bool simplify_parts(const Operator& op, Witness& witness) {
  bool changed = false;
  for (size_t i = 0; i < witness.operands.size(); ++i) {
    const Placement placement = witness.combination.operands[i];
    const TensorDesc desc = witness.sample.operands[i];
    if (!placement.is_partial() || desc.domain != Domain::Any) continue;
    if (placement.reduce == ReduceOp::And || placement.reduce == ReduceOp::Or) continue;
    if (!std::all_of(witness.devices[i].begin(), witness.devices[i].end(), is_exact)) continue;
    std::vector<std::vector<double>> parts;
    for (const Array& part : witness.devices[i]) parts.push_back(to_doubles(part));
    auto total = [&](size_t e) {
      double sum = parts[0][e];
      for (size_t d = 1; d < parts.size(); ++d) {
        if (placement.reduce == ReduceOp::Sum || placement.reduce == ReduceOp::Avg)
          sum += parts[d][e];
        if (placement.reduce == ReduceOp::Prod) sum *= parts[d][e];
        if (placement.reduce == ReduceOp::Max) sum = std::max(sum, parts[d][e]);
        if (placement.reduce == ReduceOp::Min) sum = std::min(sum, parts[d][e]);
      }
      return placement.reduce == ReduceOp::Avg ? sum / static_cast<double>(parts.size()) : sum;
    };
    for (size_t d = 0; d < parts.size(); ++d) {
      for (size_t e = 0; e < parts[d].size(); ++e) {
        const double before = parts[d][e];
        for (double simple : {0.0, 1.0, -1.0, 2.0, std::round(before)}) {
          if (simple == before) break;
          if (is_unsigned_integer(desc.dtype) && simple < 0) continue;
          parts[d][e] = simple;
          // The average of whole numbers must be whole.
          if (!has_fractions(desc.dtype) && total(e) != std::round(total(e))) {
            parts[d][e] = before;
            continue;
          }
          Witness candidate = witness;
          std::vector<double> value = to_doubles(witness.operands[i]);
          value[e] = total(e);
          candidate.operands[i] = from_doubles(desc.dtype, desc.shape, value);
          candidate.devices[i][d] = from_doubles(desc.dtype, desc.shape, parts[d]);
          if (is_integer(desc.dtype) && placement.reduce != ReduceOp::Avg)
            candidate.operands[i] = combined(candidate.devices[i], placement.reduce);
          if (still_refuted(op, candidate)) {
            witness = std::move(candidate);
            changed = true;
            break;
          }
          parts[d][e] = before;
        }
      }
    }
  }
  return changed;
}

}  // namespace

Witness shrink(const Operator& op, const Witness& witness) {
  Witness smallest = witness;
  while (shrink_shapes(op, smallest) || shrink_world(op, smallest)) {
  }
  for (int round = 0; round < 6; ++round) {
    const bool numbers = simplify_numbers(op, smallest);
    if (!simplify_parts(op, smallest) && !numbers) break;
  }
  return smallest;
}

}  // namespace cleave

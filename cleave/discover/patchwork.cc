// Operands of two kinds of numbers, one kind in a corner: so that a shard has numbers of one kind
// alone, and the whole operand has both.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "cleave/discover/inputs.h"

namespace cleave {
namespace {

InputGenerator all_of(const char* name, double value, bool floats_only = true) {
  return {name, "",
          [value](const FillContext& context, NumberStream&) {
            return std::vector<double>(static_cast<size_t>(num_elements(context.shape)), value);
          },
          floats_only};
}

// The usual ones.
const std::vector<InputGenerator>& usual_patches() {
  static const std::vector<InputGenerator> all = [] {
    std::vector<InputGenerator> list = default_generators();
    std::erase_if(list, [](const InputGenerator& g) { return g.patchwork > 0; });
    return list;
  }();
  return all;
}
// The first of them are ordinary: ordered, normal, mixed integers, ties, negative.
constexpr size_t kOrdinary = 5;

// Numbers that many operators have an opinion about, group by group; then any of the usual ones.
std::span<const InputGenerator> corner_patches(int which) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static const std::vector<std::vector<InputGenerator>> groups = {
      {generator_of_values("quarters", {0.25, 0.5, 0.75, 1.25, 1.5, -0.25, -0.5, -1.5})},
      {generator_of_values("tiny", {1e-40, -1e-40, 1e-310, 1e-20, -1e-30})},
      {all_of("negative_zeros", -0.0)},
      {all_of("all_nan", std::numeric_limits<double>::quiet_NaN()),
       all_of("all_infinite", kInfinity)},
      {all_of("all_below", -kInfinity), all_of("minus_one", -1, false), all_of("none", 0, false)}};
  if (static_cast<size_t>(which) > groups.size()) return usual_patches();
  return groups[static_cast<size_t>(which) - 1];
}

}  // namespace

Array patchwork_input(int which, const TensorDesc& desc, NumberStream& random, size_t operand) {
  auto pick = [&](std::span<const InputGenerator> from) -> const InputGenerator& {
    for (int attempt = 0; attempt < 8; ++attempt) {
      const InputGenerator& generator =
          from[static_cast<size_t>(random.below(static_cast<int64_t>(from.size())))];
      if (!generator.floats_only || has_fractions(desc.dtype)) return generator;
    }
    // A group without integers: the ends of their type.
    return *std::find_if(usual_patches().begin(), usual_patches().end(),
                         [](const InputGenerator& g) { return g.integer_ends; });
  };
  Array result =
      make_input(pick(std::span(usual_patches()).first(kOrdinary)), desc, random, operand)
          .contiguous();
  // What is said of rows or matrices as a whole does not survive a corner.
  if (desc.domain == Domain::Sorted || desc.domain == Domain::Definite) return result;
  const Array corner = make_input(pick(corner_patches(which)), desc, random, operand).contiguous();
  const size_t rank = desc.shape.size(), size = static_cast<size_t>(byte_size(desc.dtype));
  // [begin, end) of the corner in each dimension: at one end, and never all of a dimension.
  std::vector<std::pair<int64_t, int64_t>> box;
  for (int64_t n : desc.shape) {
    const int64_t width = n < 2 ? n : 1 + random.below(random.chance(0.7) ? n / 2 : n - 1);
    box.push_back(random.chance(0.5) ? std::pair{int64_t{0}, width} : std::pair{n - width, n});
  }
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    int64_t rest = i;
    bool inside = true;
    for (size_t d = rank; d-- > 0; rest /= desc.shape[d]) {
      const int64_t at = rest % desc.shape[d];
      inside = inside && at >= box[d].first && at < box[d].second;
    }
    if (inside)
      std::memcpy(result.raw() + static_cast<size_t>(i) * size,
                  corner.raw() + static_cast<size_t>(i) * size, size);
  }
  return result;
}

}  // namespace cleave

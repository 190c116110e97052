#include "cleave/runtime/compare_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/kernels/array_text.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/random_roundings.h"

namespace cleave {
namespace {

// A number beyond the tolerance; a complex number has two.
struct Suspect {
  int64_t index;  // in its array of doubles
  double expected;
  double deviation;
  double spread = 0;  // the farthest that a run with random roundings came from `expected`
};

struct SuspectResult {
  size_t result;
  std::vector<Suspect> numbers;
};

double distance(double x, double y) {
  if (x == y || (std::isnan(x) && std::isnan(y))) return 0;
  if (!std::isfinite(x) || !std::isfinite(y)) return std::numeric_limits<double>::infinity();
  return std::fabs(x - y);
}

Array doubles_of(const Array& array) {
  return convert(array, is_complex(array.dtype()) ? DType::C128 : DType::F64).contiguous();
}

int64_t parts_of(const Array& array) { return is_complex(array.dtype()) ? 2 : 1; }

// 64-bit integers that doubles cannot tell apart differ by one.
class ExactIntegers {
 public:
  ExactIntegers(const Array& a, const Array& b)
      : a_(a.contiguous()),
        b_(b.contiguous()),
        applies_(is_integer(a.dtype()) && byte_size(a.dtype()) == 8) {}
  double distance(int64_t i) const {
    return applies_ && a_.data<uint64_t>()[i] != b_.data<uint64_t>()[i] ? 1 : 0;
  }

 private:
  Array a_, b_;
  bool applies_;
};

std::vector<Suspect> find_suspects(const Array& actual, const Array& expected, double tolerance) {
  const Array a = doubles_of(actual), e = doubles_of(expected);
  const ExactIntegers exact(actual, expected);
  std::vector<Suspect> suspects;
  for (int64_t i = 0; i < e.num_elements() * parts_of(e); ++i) {
    const double y = e.data<double>()[i];
    const double off = std::max(distance(a.data<double>()[i], y), exact.distance(i));
    if (off > tolerance) suspects.push_back({i, y, off});
  }
  return suspects;
}

bool has_region_flow(const Graph& graph) {
  bool found = false;
  graph.walk([&](NodeId id) {
    const Flow flow = flow_of(graph.node(id));
    found |= flow == Flow::Loop || flow == Flow::Branches;
  });
  return found;
}

// Runs the function with random roundings until they explain all suspects, or do not seem to.
class RoundingJury {
 public:
  RoundingJury(const Graph& whole, std::string_view entry, std::span<const Array> args,
               std::span<const Array> expected, const CompareRunsOptions& options)
      : whole_(whole), entry_(entry), args_(args), expected_(expected), options_(options) {}

  int hear(std::vector<SuspectResult>& suspects) {
    RandomRoundings roundings{.narrow_sums = options_.narrow_sums};
    if (has_region_flow(whole_))
      roundings.most_calls = 4 * count_calls(whole_, entry_, args_) + 1000;
    int64_t open = count_open(suspects), last_progress = 0;
    int run = 0;
    while (open > 0 && run < options_.most_runs && run - last_progress < kPatience) {
      ++run;
      roundings.seed = static_cast<uint64_t>(run);
      if (const auto results = run_with_roundings(whole_, entry_, args_, roundings))
        for (SuspectResult& suspect : suspects) spread(suspect, (*results)[suspect.result]);
      const int64_t now = count_open(suspects);
      if (now < open) last_progress = run;
      open = now;
    }
    return run;
  }

  bool is_open(const Suspect& suspect) const {
    return !(suspect.deviation <= options_.reach * suspect.spread);
  }

 private:
  // Runs in which roundings explain nothing further. A choice between equals may come out the same
  // many times in a row.
  static constexpr int kPatience = 10;

  int64_t count_open(const std::vector<SuspectResult>& suspects) const {
    int64_t count = 0;
    for (const SuspectResult& result : suspects)
      count += std::count_if(result.numbers.begin(), result.numbers.end(),
                             [&](const Suspect& suspect) { return is_open(suspect); });
    return count;
  }

  void spread(SuspectResult& suspects, const Array& rounded) const {
    const Array& expected = expected_[suspects.result];
    // Where sizes depend on numbers, roundings may give another shape.
    if (rounded.dtype() != expected.dtype() || rounded.shape() != expected.shape()) return;
    const Array numbers = doubles_of(rounded);
    const ExactIntegers exact(rounded, expected);
    for (Suspect& suspect : suspects.numbers)
      suspect.spread =
          std::max({suspect.spread, exact.distance(suspect.index),
                    distance(numbers.data<double>()[suspect.index], suspect.expected)});
  }

  const Graph& whole_;
  std::string_view entry_;
  std::span<const Array> args_, expected_;
  const CompareRunsOptions& options_;
};

std::string place_text(int64_t element, const Shape& shape) {
  Shape index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = element % shape[d];
    element /= shape[d];
  }
  return fmt::format("[{}]", to_string(index));
}

std::string difference_text(size_t result, const Suspect& worst, int64_t count, const Array& actual,
                            const Array& expected, int runs) {
  const int64_t element = worst.index / parts_of(expected);
  const Array a = actual.contiguous(), e = expected.contiguous();
  const int64_t offset = element * byte_size(e.dtype());
  const std::string roundings =
      worst.spread == 0 ? "do not move it" : fmt::format("move it by {:.2g}", worst.spread);
  return fmt::format(
      "result {} differs by {:.3g}: {}: {} and {} expected; roundings {} ({} runs){}", result,
      worst.deviation, place_text(element, expected.shape()),
      element_text(a.dtype(), a.raw() + offset), element_text(e.dtype(), e.raw() + offset),
      roundings, runs,
      count > 1 ? fmt::format("; {} of its {} numbers differ so", count,
                              expected.num_elements() * parts_of(expected))
                : "");
}

}  // namespace

RunComparison compare_runs(const Graph& whole, std::string_view entry, std::span<const Array> args,
                           std::span<const Array> expected, std::span<const Array> actual,
                           const CompareRunsOptions& options) {
  const Function* function = whole.find_function(entry);
  if (!function) throw_user("there is no function @{} in the module", entry);
  if (expected.size() != actual.size() || expected.size() != function->result_types.size())
    throw_user("@{} has {} results; {} are compared with {}", entry, function->result_types.size(),
               actual.size(), expected.size());
  RunComparison comparison;
  std::vector<SuspectResult> suspects;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!function->result_types[i].is_tensor()) continue;
    const Comparison one = options.units
                               ? compare(actual[i], expected[i], options.units(expected[i].dtype()))
                               : compare(actual[i], expected[i]);
    comparison.numbers += expected[i].num_elements() * parts_of(expected[i]);
    comparison.max_difference = std::max(comparison.max_difference, one.max_difference);
    comparison.scale = std::max(comparison.scale, one.scale);
    if (one.same) continue;
    if (actual[i].dtype() != expected[i].dtype() || actual[i].shape() != expected[i].shape())
      comparison.differences.push_back(fmt::format("result {} has {}", i, one.first));
    else
      suspects.push_back({i, find_suspects(actual[i], expected[i], one.tolerance)});
  }
  if (suspects.empty()) return comparison;
  RoundingJury jury(whole, entry, args, expected, options);
  comparison.rounding_runs = jury.hear(suspects);
  for (const SuspectResult& result : suspects) {
    const Suspect* worst = nullptr;
    int64_t different = 0;
    for (const Suspect& suspect : result.numbers) {
      if (!jury.is_open(suspect)) continue;
      ++different;
      if (!worst || suspect.deviation > worst->deviation) worst = &suspect;
    }
    comparison.different += different;
    comparison.unsteady += static_cast<int64_t>(result.numbers.size()) - different;
    if (worst)
      comparison.differences.push_back(
          difference_text(result.result, *worst, different, actual[result.result],
                          expected[result.result], comparison.rounding_runs));
  }
  return comparison;
}

std::string unsteady_text(const RunComparison& comparison) {
  if (comparison.unsteady == 0) return "";
  return fmt::format(
      "{} of {} numbers differ by more than the tolerance; random roundings of the whole program "
      "move them as far ({} {})",
      comparison.unsteady, comparison.numbers, comparison.rounding_runs,
      comparison.rounding_runs == 1 ? "run" : "runs");
}

}  // namespace cleave

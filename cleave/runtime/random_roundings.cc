#include "cleave/runtime/random_roundings.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/verify.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/narrow.h"
#include "cleave/ops/cost.h"
#include "cleave/runtime/interpreter.h"
#include "cleave/runtime/narrow_eval.h"

namespace cleave {
namespace {

bool rounds_results(DType dtype) { return is_float(dtype) || is_complex(dtype); }

// Floats that are summed in a wider type.
bool is_summed_wide(DType dtype) {
  return is_float(dtype) && dtype != DType::F32 && dtype != DType::F64;
}

uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// In [-1, 1]; of the element and its place alone, so that devices that hold the same numbers keep
// doing so, and no thread's timing matters.
double noise(uint64_t key, int64_t place, double value) {
  const uint64_t bits =
      mixed(key ^ mixed(static_cast<uint64_t>(place) ^ mixed(std::bit_cast<uint64_t>(value))));
  return static_cast<double>(static_cast<int64_t>(bits) >> 11) * 0x1p-52;
}

// The elements as doubles, the parts of complex numbers one after the other.
Array as_doubles(const Array& array) {
  return convert(array, is_complex(array.dtype()) ? DType::C128 : DType::F64).contiguous();
}

int64_t count_doubles(const Array& doubles) {
  return doubles.num_elements() * (is_complex(doubles.dtype()) ? 2 : 1);
}

// Numbers beyond are left alone: shaken, they might be infinite.
double most_shaken(DType dtype) {
  const DType part = real_part_type(dtype);
  return part == DType::F64 ? 1e308 : part == DType::F16 ? 6e4 : 3e38;
}

// Every element off by up to `relative` of its magnitude, and by up to `absolute` of that of the
// same element of `magnitudes`, where there are any.
Array shaken(const Array& array, uint64_t key, double relative, const Array* magnitudes = nullptr,
             double absolute = 0) {
  Array numbers = as_doubles(array).copy();
  const Array sizes = magnitudes ? as_doubles(*magnitudes) : numbers;
  const int64_t parts = is_complex(array.dtype()) ? 2 : 1;
  double* x = numbers.data<double>();
  const double* m = sizes.data<double>();
  const double most = most_shaken(array.dtype());
  for (int64_t i = 0; i < numbers.num_elements(); ++i) {
    double* const at = x + i * parts;
    const double size = parts == 2 ? std::hypot(at[0], at[1]) : std::fabs(at[0]);
    if (!(size <= most)) continue;
    const double sum = magnitudes ? std::fabs(m[i * parts]) : 0;
    const double reach = relative * size + (std::isfinite(sum) ? absolute * sum : 0);
    for (int64_t p = 0; p < parts; ++p) at[p] += reach * noise(key, i * parts + p, at[p]);
  }
  return convert(numbers, array.dtype());
}

// Whether all numbers of the results are numbers of the operands: nothing was computed, or it came
// out even. Zeros come from anywhere.
bool only_moves(std::span<const Array> operands, std::span<const Array> results) {
  std::vector<double> wanted;
  std::vector<Array> lists;
  for (const Array& result : results) {
    if (!rounds_results(result.dtype())) continue;
    lists.push_back(as_doubles(result));
    const int64_t count = count_doubles(lists.back());
    for (int64_t i = 0; i < count; i += std::max<int64_t>(1, count / 64))
      wanted.push_back(lists.back().data<double>()[i]);
  }
  std::erase_if(wanted, [](double x) { return x == 0 || std::isnan(x); });
  std::sort(wanted.begin(), wanted.end());
  std::vector<bool> found(wanted.size());
  std::vector<Array> sources;
  for (const Array& operand : operands) {
    if (!rounds_results(operand.dtype())) continue;
    sources.push_back(as_doubles(operand));
    for (int64_t i = 0; i < count_doubles(sources.back()); ++i) {
      const double x = sources.back().data<double>()[i];
      auto at = std::lower_bound(wanted.begin(), wanted.end(), x);
      for (; at != wanted.end() && *at == x; ++at)
        found[static_cast<size_t>(at - wanted.begin())] = true;
    }
  }
  if (std::find(found.begin(), found.end(), false) != found.end()) return false;
  // Most likely; now all of them.
  std::vector<double> all;
  for (const Array& source : sources)
    for (int64_t i = 0; i < count_doubles(source); ++i)
      if (const double x = source.data<double>()[i]; !std::isnan(x)) all.push_back(x);
  std::sort(all.begin(), all.end());
  for (const Array& list : lists)
    for (int64_t i = 0; i < count_doubles(list); ++i) {
      const double x = list.data<double>()[i];
      if (x != 0 && !std::isnan(x) && !std::binary_search(all.begin(), all.end(), x)) return false;
    }
  return true;
}

// The largest magnitude of whole numbers; nothing where there are others.
std::optional<double> largest_whole(const Array& array) {
  const Array numbers = as_doubles(array);
  double largest = 0;
  for (int64_t i = 0; i < count_doubles(numbers); ++i) {
    const double x = numbers.data<double>()[i];
    if (!(std::fabs(x) < 0x1p53) || x != std::trunc(x)) return std::nullopt;
    largest = std::max(largest, std::fabs(x));
  }
  return largest;
}

// Whole numbers whose products and sums have a place in the type they are summed in.
bool sums_whole_numbers(std::span<const Array> operands, std::span<const Array> results) {
  double reach = 1;
  int64_t most = 1;
  double limit = 0x1p53;
  for (const Array& operand : operands) {
    if (!rounds_results(operand.dtype())) continue;
    const std::optional<double> largest = largest_whole(operand);
    if (!largest) return false;
    reach *= std::max(1.0, *largest);
    most = std::max(most, operand.num_elements());
    if (real_part_type(operand.dtype()) != DType::F64) limit = 0x1p24;
  }
  if (reach * static_cast<double>(most) > limit) return false;
  return std::all_of(results.begin(), results.end(), [](const Array& result) {
    return !rounds_results(result.dtype()) || largest_whole(result);
  });
}

class RoundingKernels : public KernelCaller {
 public:
  explicit RoundingKernels(const RandomRoundings& roundings, bool shakes = true)
      : options_(roundings), shakes_(shakes) {}

  std::vector<Array> call(EvalContext& context, const Node& node,
                          std::span<const Array> operands) override {
    if (calls_.fetch_add(1) >= options_.most_calls)
      throw_user("a run with random roundings does not end");
    if (node.results.empty()) return {};
    internal_check(!node.def->opaque, "an op that nobody knows is run");
    const EvalFn eval = has_narrow_elements(context.graph(), node)
                            ? narrow_eval(context.graph(), node)
                            : node.def->eval;
    if (!eval) throw_user("{}: this op cannot be executed", node.name());
    if (!node.def->has(kElementwise) && !node.def->has(kConstantLike)) ++inner_ops();
    if (!shakes_ || !may_round(context.graph(), node)) return eval(context, node, operands);
    return shake(context, node, operands, eval);
  }

  int64_t calls() const { return calls_; }

 private:
  // Of this thread, that are more than the body of a reducer.
  static int64_t& inner_ops() {
    static thread_local int64_t count = 0;
    return count;
  }

  static bool may_round(const Graph& graph, const Node& node) {
    const OpDef& def = *node.def;
    for (Trait exact : {kElementwise, kViewLike, kConstantLike, kDataFlow, kCall, kTerminator})
      if (def.has(exact)) return false;
    // Collectives that compute have a body.
    if (def.has(kCollective) && node.regions.empty()) return false;
    const auto rounds = [&](ValueId value) {
      const Type& type = graph.type(value);
      return type.is_tensor() && rounds_results(type.dtype);
    };
    if (std::none_of(node.operands.begin(), node.operands.end(), rounds) ||
        std::none_of(node.results.begin(), node.results.end(), rounds))
      return false;
    // An op that says what it costs, and that this is no arithmetic.
    const OpCost cost = op_cost(graph, node);
    return !def.cost || cost.flops > 0 || cost.is_nothing();
  }

  std::vector<Array> shake(EvalContext& context, const Node& node, std::span<const Array> operands,
                           EvalFn eval) const {
    const Graph& graph = context.graph();
    // Held twice, so that no kernel writes into them.
    const std::vector<Array> held(operands.begin(), operands.end());
    const bool wide = std::any_of(held.begin(), held.end(),
                                  [](const Array& array) { return is_summed_wide(array.dtype()); });
    std::vector<Array> results;
    if (!node.def->has(kCollective)) {
      const int64_t before = inner_ops();
      results = eval(context, node, held);
      // Ops inside were shaken themselves.
      if (inner_ops() != before) return results;
      if (wide ? only_chooses(context, node, held, eval) : only_moves(held, results))
        return results;
      if (sums_whole_numbers(held, results)) return results;
    } else if (std::all_of(held.begin(), held.end(), [](const Array& array) {
                 return !rounds_results(array.dtype()) || largest_whole(array);
               })) {
      return eval(context, node, held);  // devices must not decide by their own results
    }

    const double steps = 1 + std::log2(std::max(2.0, terms(graph, node, held, results)));
    const uint64_t key = mixed(options_.seed ^ mixed(node.results[0].index));
    std::vector<Array> magnitudes;
    if (wide && !node.def->has(kCollective)) {
      magnitudes = sums_of_magnitudes(context, node, held, eval);
    } else {
      std::vector<Array> moved = held;
      for (size_t i = 0; i < moved.size(); ++i)
        if (rounds_results(moved[i].dtype()))
          moved[i] = shaken(moved[i], mixed(key + i + 1), steps * unit_rounding(moved[i].dtype()));
      results = eval(context, node, moved);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const DType dtype = results[i].dtype();
      if (!rounds_results(dtype)) continue;
      const double own = unit_rounding(dtype);
      const double sum = options_.narrow_sums ? own : std::min(own, unit_rounding(DType::F32));
      const bool rounded_once = is_summed_wide(dtype) && !options_.narrow_sums;
      const bool has_sizes = i < magnitudes.size() && magnitudes[i].shape() == results[i].shape();
      results[i] = shaken(results[i], mixed(key ^ ~uint64_t{i}), own * (rounded_once ? 2 : steps),
                          has_sizes ? &magnitudes[i] : nullptr, steps * sum);
    }
    return results;
  }

  // About how many numbers a result is made of.
  static double terms(const Graph& graph, const Node& node, const std::vector<Array>& operands,
                      const std::vector<Array>& results) {
    double in = 1, out = 1;
    for (const Array& operand : operands)
      in = std::max(in, static_cast<double>(operand.num_elements()));
    for (const Array& result : results)
      out = std::max(out, static_cast<double>(result.num_elements()));
    return std::max(in / out, op_cost(graph, node).flops / out);
  }

  // There are few 16-bit floats: a sum is soon one of its operands' numbers by chance. So the op is
  // asked for what it makes of threes and fives; a maximum, a sort or a pooling gives them back.
  static bool only_chooses(EvalContext& context, const Node& node,
                           const std::vector<Array>& operands, EvalFn eval) {
    std::vector<Array> probes = operands;
    for (Array& probe : probes) {
      if (!rounds_results(probe.dtype())) continue;
      Array numbers = as_doubles(probe).copy();
      for (int64_t i = 0; i < count_doubles(numbers); ++i)
        numbers.data<double>()[i] = mixed(static_cast<uint64_t>(i)) % 2 ? 3 : 5;
      probe = convert(numbers, probe.dtype());
    }
    try {
      for (const Array& result : eval(context, node, probes)) {
        if (!rounds_results(result.dtype())) continue;
        const Array numbers = as_doubles(result);
        for (int64_t i = 0; i < count_doubles(numbers); ++i)
          if (const double x = numbers.data<double>()[i]; x != 3 && x != 5 && x != 0) return false;
      }
      return true;
    } catch (const UserError&) {
      return false;
    }
  }

  static std::vector<Array> sums_of_magnitudes(EvalContext& context, const Node& node,
                                               const std::vector<Array>& operands, EvalFn eval) {
    std::vector<Array> positive = operands;
    for (Array& operand : positive)
      if (is_float(operand.dtype()))
        operand = convert(unary(UnaryOp::Abs, convert(operand, DType::F64)), operand.dtype());
    try {
      return eval(context, node, positive);
    } catch (const UserError&) {
      return {};  // no sum after all
    }
  }

  RandomRoundings options_;
  bool shakes_;
  std::atomic<int64_t> calls_ = 0;
};

std::vector<Array> run_kernels(const Graph& graph, std::string_view entry,
                               std::span<const Array> args, RoundingKernels& kernels) {
  verify_graph(graph);
  check_arguments(graph, entry, args);
  Interpreter interpreter(graph, std::make_shared<const Schedule>(graph), {.kernels = &kernels});
  return interpreter.call(entry, args);
}

}  // namespace

std::optional<std::vector<Array>> run_with_roundings(const Graph& graph, std::string_view entry,
                                                     std::span<const Array> args,
                                                     const RandomRoundings& roundings) {
  RoundingKernels kernels(roundings);
  try {
    return run_kernels(graph, entry, args, kernels);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

int64_t count_calls(const Graph& graph, std::string_view entry, std::span<const Array> args) {
  RoundingKernels kernels({}, false);
  run_kernels(graph, entry, args, kernels);
  return kernels.calls();
}

double unit_rounding(DType dtype) {
  switch (real_part_type(dtype)) {
    case DType::F64:
      return 0x1p-53;
    case DType::F32:
      return 0x1p-24;
    case DType::F16:
      return 0x1p-11;
    case DType::BF16:
      return 0x1p-8;
    default:
      break;
  }
  if (!is_narrow(dtype) || !is_float(dtype)) return 0;
  // Halved until it is lost.
  double step = 1;
  const double one = narrow_float_value(dtype, narrow_float_bits(dtype, 1));
  while (narrow_float_value(dtype, narrow_float_bits(dtype, one + step * 0.75)) != one) step /= 2;
  return step;
}

}  // namespace cleave

// What kind of operator it is: found by running it, and said before any placement is tried.
#include "cleave/discover/analysis.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace cleave {
namespace {

constexpr size_t kMostSamples = 8;

// Some of the samples, spread over all of them.
std::vector<Sample> spread(const std::vector<Sample>& samples) {
  if (samples.size() <= kMostSamples) return samples;
  std::vector<Sample> some;
  for (size_t i = 0; i < kMostSamples; ++i)
    some.push_back(samples[i * samples.size() / kMostSamples]);
  return some;
}

bool is_position(const TensorDesc& desc) {
  return desc.domain == Domain::Index || desc.domain == Domain::Bool || desc.dtype == DType::Bool;
}

// Where each number of a result comes from: (operand, element), or a constant; nothing if some
// number is computed.
using Sources = std::vector<std::pair<int, size_t>>;
std::optional<std::vector<Sources>> sources_of(const std::vector<Array>& operands,
                                               const std::vector<Array>& results) {
  std::map<double, std::pair<int, size_t>> places;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::vector<double> numbers = to_doubles(operands[i]);
    for (size_t k = 0; k < numbers.size(); ++k) places[numbers[k]] = {static_cast<int>(i), k};
  }
  std::vector<Sources> all;
  size_t copied = 0;
  for (const Array& result : results) {
    all.emplace_back();
    for (double x : to_doubles(result)) {
      const auto it = places.find(x);
      copied += it != places.end();
      if (it == places.end() && x != 0) return std::nullopt;
      all.back().push_back(it == places.end() ? std::pair{-1, size_t{0}} : it->second);
    }
  }
  return copied > 0 ? std::optional(all) : std::nullopt;
}

class Categorizer {
 public:
  Categorizer(const Operator& op, const std::vector<Sample>& samples, const Analysis& analysis,
              uint64_t seed)
      : op_(op), samples_(samples), properties_(analysis.properties), seed_(seed) {}

  OpCategory category() const {
    if (samples_.empty()) return OpCategory::Other;
    if (is_factory()) return OpCategory::Factory;
    if (has_property(properties_, "elementwise")) return OpCategory::Pointwise;
    if (is_sort()) return OpCategory::Sort;
    if (any_operand(is_position)) return OpCategory::Index;
    if (is_view()) return OpCategory::View;
    const bool integers = any_operand([](const TensorDesc& d) { return is_integer(d.dtype); });
    const bool floats = any_operand([](const TensorDesc& d) { return has_fractions(d.dtype); });
    if (integers && floats) return OpCategory::Index;
    if (is_product()) return OpCategory::MatmulLike;
    const auto smaller = [](const Sample& s, const Shape& shape) {
      return !s.operands.empty() && num_elements(shape) < num_elements(s.operands[0].shape);
    };
    if (every_sample([](const Sample& s, const Shape& shape) { return is_reduced(s, shape); }) &&
        !every_sample([&](const Sample& s, const Shape& shape) { return !smaller(s, shape); }))
      return OpCategory::Reduction;
    if (every_sample([](const Sample& s, const Shape& shape) {
          return !s.operands.empty() && s.operands[0].shape == shape;
        }))
      return OpCategory::CrossDim;
    return OpCategory::Other;
  }

 private:
  template <typename F>
  bool any_operand(F f) const {
    return std::any_of(samples_.front().operands.begin(), samples_.front().operands.end(), f);
  }
  // `f` gets a sample and the shape of its first result.
  template <typename F>
  bool every_sample(F f) const {
    return std::all_of(samples_.begin(), samples_.end(), [&](const Sample& sample) {
      const auto results = try_run(op_, sample, random_operands(sample, seed_ + 3));
      return results && !results->empty() && f(sample, results->front().shape());
    });
  }

  bool is_factory() const {
    for (size_t i = 0; i < samples_.front().operands.size(); ++i)
      if (!has_property(properties_, "independent", fmt::format("operand {}", i))) return false;
    return true;
  }

  // Two draws of numbers take the same way.
  bool is_view() const {
    bool any = false;
    for (const Sample& sample : samples_) {
      std::optional<std::vector<Sources>> first;
      for (uint64_t draw = 0; draw < 2; ++draw) {
        const std::vector<Array> operands = random_operands(sample, seed_ + 40 + draw);
        const auto results = try_run(op_, sample, operands);
        if (!results) continue;
        const auto sources = sources_of(operands, *results);
        if (!sources || (first && *sources != *first)) return false;
        first = sources;
        any = true;
      }
    }
    return any;
  }

  bool is_sort() const {
    if (any_operand([](const TensorDesc& d) { return d.domain == Domain::Sorted; })) return true;
    return std::all_of(samples_.begin(), samples_.end(), [&](const Sample& sample) {
      if (sample.operands.size() != 1) return false;
      const std::vector<Array> operands = random_operands(sample, seed_ + 5);
      const auto results = try_run(op_, sample, operands);
      return results && std::any_of(results->begin(), results->end(), [&](const Array& result) {
               return is_ordered(operands[0], result);
             });
    });
  }

  // Some numbers of the operand, in order along a dimension of both; or the positions 0, 1, ... in
  // another order along it.
  static bool is_ordered(const Array& operand, const Array& result) {
    if (operand.rank() != result.rank() || is_complex(result.dtype())) return false;
    const std::vector<double> in = to_doubles(operand), out = to_doubles(result);
    const bool copies = std::all_of(out.begin(), out.end(), [&](double x) {
      return std::find(in.begin(), in.end(), x) != in.end();
    });
    for (size_t d = 0; d < result.rank(); ++d) {
      size_t inner = 1;
      for (size_t k = d + 1; k < result.rank(); ++k)
        inner *= static_cast<size_t>(result.shape()[k]);
      const auto n = static_cast<size_t>(result.shape()[d]);
      if (n < 2 || out.empty()) continue;
      bool up = copies, down = copies, places = is_integer(result.dtype());
      for (size_t begin = 0; begin < out.size(); ++begin) {
        if (begin / inner % n != 0) continue;
        std::vector<bool> seen(n);
        for (size_t k = 0; k < n; ++k) {
          const double x = out[begin + k * inner];
          up &= k == 0 || out[begin + (k - 1) * inner] <= x;
          down &= k == 0 || out[begin + (k - 1) * inner] >= x;
          const auto at = static_cast<size_t>(std::max(x, 0.0));
          places &= x >= 0 && at < n && !seen[at];
          if (places) seen[at] = true;
        }
      }
      if (up || down || places) return true;
    }
    return false;
  }

  // Linear in each of two operands, and not a fiber of one with the same fiber of the other.
  bool is_product() const {
    if (!has_property(properties_, "bilinear") && !has_property(properties_, "multilinear"))
      return false;
    return !std::all_of(samples_.begin(), samples_.end(), [&](const Sample& sample) {
      const Reach reach = reach_of(op_, sample, seed_);
      return reach.same_shape && reach.all().size() == 1;
    });
  }

  // The operand's shape without some dimensions, or with size 1 there.
  static bool is_reduced(const Sample& sample, const Shape& result) {
    if (sample.operands.empty()) return false;
    const Shape& shape = sample.operands[0].shape;
    if (shape.size() == result.size())
      return std::equal(shape.begin(), shape.end(), result.begin(),
                        [](int64_t a, int64_t b) { return a == b || b == 1; });
    size_t at = 0;
    for (int64_t size : shape) at += at < result.size() && result[at] == size;
    return at == result.size();
  }

  const Operator& op_;
  const std::vector<Sample>& samples_;
  const std::vector<MathProperty>& properties_;
  uint64_t seed_;
};

std::string dim_sentence(OpCategory category) {
  switch (category) {
    case OpCategory::Reduction:
      return "it names the dimension that is reduced";
    case OpCategory::CrossDim:
      return "it names the dimension along which elements depend on each other";
    case OpCategory::Sort:
      return "it names the dimension along which elements are put in order or looked up";
    case OpCategory::Index:
      return "it names the dimension that positions refer to";
    case OpCategory::View:
      return "it names the dimension whose elements move";
    default:
      return "it names a dimension of an operand or of the result";
  }
}

// A truth value that changes the shape of the results and none of their numbers.
bool is_keepdim(const Operator& op, const std::vector<Sample>& samples, const std::string& name,
                uint64_t seed) {
  bool any = false;
  for (const Sample& sample : samples) {
    Sample other = sample;
    bool& flag = std::get<bool>(other.attrs.at(name));
    flag = !flag;
    const std::vector<Array> operands = random_operands(sample, seed);
    const auto a = try_run(op, sample, operands), b = try_run(op, other, operands);
    if (!a || !b || a->size() != b->size()) continue;
    for (size_t r = 0; r < a->size(); ++r) {
      if ((*a)[r].rank() == (*b)[r].rank() || (*a)[r].dtype() != (*b)[r].dtype()) return false;
      if (to_doubles((*a)[r]) != to_doubles((*b)[r])) return false;
    }
    any = true;
  }
  return any;
}

void find_parameters(const Operator& op, const std::vector<Sample>& samples, uint64_t seed,
                     Analysis& analysis) {
  if (samples.empty()) return;
  for (const auto& [name, value] : samples.front().attrs) {
    const bool named =
        std::find(op.dim_attrs.begin(), op.dim_attrs.end(), name) != op.dim_attrs.end();
    if (named && !analysis.dim_parameter)
      analysis.dim_parameter = {{name, dim_sentence(analysis.category)}};
    const bool always = std::all_of(samples.begin(), samples.end(), [&](const Sample& s) {
      return s.attrs.contains(name) && std::holds_alternative<bool>(s.attrs.at(name));
    });
    if (always && !analysis.keepdim_parameter && is_keepdim(op, samples, name, seed))
      analysis.keepdim_parameter = {
          {name, "it keeps the reduced dimension with size 1, and changes no number"}};
  }
}

}  // namespace

std::string_view name(OpCategory category) {
  constexpr std::string_view names[] = {"pointwise", "reduction", "matmul-like", "cross-dim",
                                        "view",      "index",     "sort",        "random",
                                        "factory",   "other"};
  return names[static_cast<size_t>(category)];
}

Analysis analyze_operator(const Operator& op, uint64_t seed) {
  Analysis analysis;
  std::vector<Sample> samples = spread(op.samples);
  // Calls that the operator refuses say nothing, and are refused again when they are decided.
  std::erase_if(samples, [&](const Sample& sample) {
    return !try_run(op, sample, random_operands(sample, seed));
  });
  if (samples.empty()) return analysis;
  analysis.properties = find_properties(op, samples, seed);
  analysis.properties.push_back(
      {"deterministic", "result", "tested", static_cast<int>(3 * op.samples.size())});
  analysis.category = Categorizer(op, samples, analysis, seed).category();
  find_parameters(op, samples, seed, analysis);
  return analysis;
}

std::string to_string(const Analysis& analysis) {
  std::string text(name(analysis.category));
  if (analysis.dim_parameter)
    text += fmt::format("; {}: {}", analysis.dim_parameter->name, analysis.dim_parameter->how);
  if (analysis.keepdim_parameter)
    text += fmt::format("; {} keeps it", analysis.keepdim_parameter->name);
  std::string list;
  for (const MathProperty& p : analysis.properties) {
    // Others say these too.
    const bool several = has_property(analysis.properties, "bilinear") ||
                         has_property(analysis.properties, "multilinear");
    const bool said = (p.name == "linear" && several && p.about.starts_with("operand")) ||
                      (p.name == "homogeneous of degree 1" &&
                       has_property(analysis.properties, "linear", p.about));
    if (said || p.name == "deterministic" || p.name == "elementwise") continue;
    const bool bare = p.about == "result";
    list +=
        fmt::format("{}{}{}", list.empty() ? "" : "; ", p.name, bare ? "" : " (" + p.about + ")");
  }
  return list.empty() ? text : text + "\n" + list;
}

}  // namespace cleave

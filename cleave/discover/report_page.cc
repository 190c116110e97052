// The report with what a page draws: every family of placements with its verdict, and witnesses as
// numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cleave/core/error.h"
#include "cleave/discover/discover.h"
#include "cleave/discover/numbers.h"
#include "cleave/kernels/dispatch.h"

namespace cleave {
namespace {

using PageJson = nlohmann::ordered_json;

// A page draws no more of an array than this.
constexpr int64_t kMostDrawn = 4096;

// JSON has no numbers that are not finite, and readers of it lose digits of large integers; such
// are texts.
PageJson number_json(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return x == 0 ? 0.0 : x;  // -0 is 0 to a reader
}

PageJson values_json(const Array& array) {
  PageJson values = PageJson::array();
  const int64_t shown = std::min(array.num_elements(), kMostDrawn);
  if (is_integer(array.dtype())) {
    const Array packed = array.contiguous();
    visit_integer(array.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < shown; ++i) {
        const T x = packed.data<T>()[i];
        if (std::abs(static_cast<double>(x)) < 0x1p53)
          values.push_back(x);
        else
          values.push_back(std::to_string(x));
      }
    });
    return values;
  }
  const std::vector<double> numbers = to_doubles(array);
  for (int64_t i = 0; i < shown; ++i) {
    if (is_complex(array.dtype()))
      values.push_back(fmt::format("{}{:+}i", numbers[2 * i], numbers[2 * i + 1]));
    else
      values.push_back(number_json(numbers[i]));
  }
  return values;
}

PageJson array_json(const Array& array) {
  PageJson json = {
      {"shape", array.shape()}, {"dtype", name(array.dtype())}, {"values", values_json(array)}};
  if (array.num_elements() > kMostDrawn) json["left_out"] = array.num_elements() - kMostDrawn;
  return json;
}

PageJson arrays_json(const std::vector<Array>& arrays) {
  PageJson list = PageJson::array();
  for (const Array& array : arrays) list.push_back(array_json(array));
  return list;
}

// Where an element is: [1, 0] of the third element of a 2x2.
Shape position_of(int64_t element, const Shape& shape) {
  Shape position(shape.size(), 0);
  for (size_t d = shape.size(); d-- > 0;) {
    position[d] = element % shape[d];
    element /= shape[d];
  }
  return position;
}

PageJson witness_json(const Operator& op, const Witness& witness) {
  const Combination& combination = witness.combination;
  PageJson json = {{"text", to_string(op.name, witness)},
                   {"call", to_string(witness.sample)},
                   {"world", witness.w},
                   {"operands", PageJson::array()}};
  for (size_t i = 0; i < witness.operands.size(); ++i)
    json["operands"].push_back({{"placement", to_string(combination.operands[i])},
                                {"whole", array_json(witness.operands[i])},
                                {"shards", arrays_json(witness.devices[i])}});
  TrialOutputs outputs;
  const TrialResult again = run_trial(op, witness.sample, combination,
                                      {witness.w, witness.operands, witness.devices}, &outputs);
  json["result"] = {{"index", combination.result}, {"placement", to_string(combination.placement)}};
  int64_t element = witness.element;
  if (outputs.truth.valid()) {
    json["result"]["expected"] = array_json(outputs.truth);
    json["result"]["devices"] = arrays_json(outputs.devices);
    if (is_complex(outputs.truth.dtype())) element /= 2;  // a complex number is two doubles
    json["position"] = position_of(std::max<int64_t>(element, 0), outputs.truth.shape());
  }
  json["element"] = element;
  json["expected"] = number_json(witness.expected);
  json["got"] = number_json(witness.actual);
  json["note"] = again.rejected ? again.error
                                : fmt::format("element {}: expected {}, the devices give {}",
                                              element, witness.expected, witness.actual);
  return json;
}

struct MatrixRow {
  std::vector<PlacePattern> operands;
  size_t result = 0;
  PlacePattern placement;
  std::string_view verdict, how;
  std::string condition, justification;
  int64_t witness = -1;
  int tests = 0;
};

// Rows of operand placements for which something holds come first, in the order of the rules.
class Matrix {
 public:
  explicit Matrix(const Discovery& discovery) : discovery_(discovery) {
    for (const RefutedRule& rule : discovery.refuted)
      if (rule.witness) witnesses_.push_back(&rule);
    for (const DiscoveredRule& rule : discovery.rules) add(rule);
    for (const RefutedRule& rule : discovery.refuted)
      if (!rule.exception) add(rule);
    for (const RefutedRule& rule : discovery.untestable) add(rule);
    std::map<std::vector<PlacePattern>, size_t> first_held;
    for (size_t i = 0; i < discovery.rules.size(); ++i)
      first_held.try_emplace(discovery.rules[i].operands, i);
    const auto key = [&](const MatrixRow& row) {
      const auto held = first_held.find(row.operands);
      return std::make_tuple(held == first_held.end() ? discovery.rules.size() : held->second,
                             row.operands, row.result, row.placement);
    };
    std::stable_sort(rows_.begin(), rows_.end(),
                     [&](const MatrixRow& a, const MatrixRow& b) { return key(a) < key(b); });
  }

  const std::vector<const RefutedRule*>& witnesses() const { return witnesses_; }

  PageJson json() const {
    PageJson json = {{"results", discovery_.num_results},
                     {"operands", operand_names()},
                     {"columns", columns()},
                     {"rows", PageJson::array()}};
    for (const MatrixRow& row : rows_) {
      PageJson inputs = PageJson::array();
      for (const PlacePattern& pattern : row.operands) inputs.push_back(to_string(pattern));
      json["rows"].push_back({{"inputs", std::move(inputs)},
                              {"output", to_string(row.placement)},
                              {"result", row.result},
                              {"verdict", row.verdict},
                              {"how", row.how},
                              {"condition", row.condition},
                              {"justification", row.justification},
                              {"witness", row.witness},
                              {"tests", row.tests}});
    }
    return json;
  }

 private:
  int64_t place_of(const RefutedRule* rule) const {
    const auto found = std::find(witnesses_.begin(), witnesses_.end(), rule);
    return found == witnesses_.end() ? -1 : found - witnesses_.begin();
  }

  // A rule with a condition has the witness of what is wrong outside of it.
  void add(const DiscoveredRule& rule) {
    const std::string_view how = name(rule.kind);
    rows_.push_back({rule.operands, rule.result, rule.placement,
                     rule.implied             ? "implied"
                     : rule.condition.empty() ? how
                                              : "conditional",
                     how, rule.condition, rule.justification,
                     rule.condition.empty() ? -1 : place_of(exception_to(discovery_, rule)),
                     rule.tests});
  }

  void add(const RefutedRule& rule) {
    rows_.push_back({rule.operands, rule.result, rule.placement, name(rule.kind), "", rule.with,
                     rule.reason, place_of(&rule), 0});
  }

  std::vector<std::string> operand_names() const {
    std::vector<std::string> names = discovery_.operand_names;
    for (size_t i = names.size(); i < discovery_.num_operands; ++i)
      names.push_back(fmt::format("operand {}", i));
    return names;
  }

  // The placements of results, replicated first.
  std::vector<std::string> columns() const {
    std::vector<PlacePattern> patterns;
    for (const MatrixRow& row : rows_) patterns.push_back(row.placement);
    const auto rank = [](const PlacePattern& p) {
      using Kind = PlacePattern::Kind;
      const int of_kind = p.kind == Kind::Replicate  ? 0
                          : p.kind == Kind::ShardOfD ? 1
                          : p.is_shard()             ? 2
                                                     : 3;
      return std::make_tuple(of_kind, p.dim != 0 && p.kind == Kind::ShardOfD, p.dim, p.reduce,
                             p.attr);
    };
    std::sort(patterns.begin(), patterns.end(),
              [&](const PlacePattern& a, const PlacePattern& b) { return rank(a) < rank(b); });
    patterns.erase(std::unique(patterns.begin(), patterns.end()), patterns.end());
    std::vector<std::string> texts;
    for (const PlacePattern& pattern : patterns) texts.push_back(to_string(pattern));
    return texts;
  }

  const Discovery& discovery_;
  std::vector<const RefutedRule*> witnesses_;
  std::vector<MatrixRow> rows_;
};

// The same with a row for every family that fails, not only for those that a reader of a table
// would ask about.
Discovery with_every_family(const Operator& op, const Discovery& discovery, bool shrink_witnesses) {
  Discovery full = discovery;
  full.rules.clear();
  full.refuted.clear();
  full.untestable.clear();
  full.attributes.clear();
  explain_by_rules(op, full, true);
  const auto key = [](const RefutedRule& rule) {
    return std::make_tuple(rule.operands, rule.result, rule.placement, rule.with);
  };
  std::map<decltype(key(RefutedRule{})), const RefutedRule*> known;
  for (const RefutedRule& rule : discovery.refuted) known.try_emplace(key(rule), &rule);
  for (RefutedRule& rule : full.refuted) {
    if (!rule.witness) continue;
    const auto found = known.find(key(rule));
    if (found != known.end() && found->second->witness)
      rule.witness = found->second->witness;
    else if (shrink_witnesses)
      rule.witness = shrink(op, *rule.witness);
  }
  return full;
}

}  // namespace

std::string report_page(const Operator& op, const Discovery& discovery, bool shrink_witnesses) {
  const bool has_families = discovery.analysis.deterministic && !discovery.samples.empty();
  const Discovery full =
      has_families ? with_every_family(op, discovery, shrink_witnesses) : discovery;
  PageJson json = PageJson::parse(report_json(full));
  const Matrix matrix(full);
  json["matrix"] = matrix.json();
  json["witnesses"] = PageJson::array();
  for (const RefutedRule* rule : matrix.witnesses())
    json["witnesses"].push_back(witness_json(op, *rule->witness));
  return json.dump(-1, ' ', false, PageJson::error_handler_t::replace) + "\n";
}

}  // namespace cleave

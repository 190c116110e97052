#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cleave/discover/operator.h"

namespace cleave {

// What mathematics says about an operator.
//   {"linear", "operand 0", "proved", 12}    {"permutation-equivariant", "dimension d if d != dim"}
struct MathProperty {
  std::string name;
  std::string about;           // an operand, a dimension or the result
  std::string how = "tested";  // or "proved": it follows from the visible definition
  int tests = 0;               // that it held in
};

// Which coordinates of a result an element of the operands reaches, in one call whose results have
// the broadcast shape of its operands. Found by changing one element at a time.
struct Reach {
  bool same_shape = false;              // the rest says nothing if this is false
  std::vector<std::set<int64_t>> dims;  // by operand: {} if it only reaches its own position
  bool only_own() const;
  std::set<int64_t> all() const;
};
Reach reach_of(const Operator& op, const Sample& sample, uint64_t seed);

// Properties that hold for all of the samples, found by running the operator on random numbers.
std::vector<MathProperty> find_properties(const Operator& op, const std::vector<Sample>& samples,
                                          uint64_t seed);
bool has_property(const std::vector<MathProperty>& properties, const std::string& name,
                  const std::string& about = {});

// The results of a call, or nothing if the operator does not take the operands.
std::optional<std::vector<Array>> try_run(const Operator& op, const Sample& sample,
                                          const std::vector<Array>& operands);
// Random operands of a call: normal numbers inside the domains.
std::vector<Array> random_operands(const Sample& sample, uint64_t seed);
// Whether two arrays have one type and, up to rounding, the same numbers.
bool is_close(const Array& a, const Array& b);
// Elements in another order along a dimension: result[i] = array[order[i]].
Array permuted(const Array& array, size_t dim, const std::vector<int64_t>& order);

}  // namespace cleave

#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cleave/runtime/partition_spec.h"
#include "cleave/transforms/tree.h"

namespace cleave {

// How one argument or result lies on the mesh: no spec (propagation chooses), one spec for all of
// its leaves, or one per leaf by its name ("layers[0].w"); leaves that are not named have none.
struct TreeSpec {
  std::optional<PartitionSpec> all;
  std::map<std::string, PartitionSpec> by_name;

  TreeSpec() = default;
  TreeSpec(std::nullopt_t) {}
  TreeSpec(PartitionSpec spec) : all(std::move(spec)) {}
  TreeSpec(std::map<std::string, PartitionSpec> specs) : by_name(std::move(specs)) {}
  std::optional<PartitionSpec> of(const std::string& leaf) const;
};

namespace spec_detail {

using LeafSpecs = std::vector<std::optional<PartitionSpec>>;

LeafSpecs leaf_specs(const std::vector<TreeSpec>& specs, size_t i,
                     const std::vector<std::string>& names);
// Throws UserError if there are more specs than arguments or results.
void check_count(const char* what, size_t specs, size_t count);

template <typename T>
void add_specs(LeafSpecs& all, const std::vector<TreeSpec>& specs, size_t i, const T& tree) {
  for (auto& spec : leaf_specs(specs, i, leaf_names(tree))) all.push_back(std::move(spec));
}
// A tuple has a spec for each of its members; any other result has the first.
template <typename R>
LeafSpecs result_specs(const std::vector<TreeSpec>& specs, const R& result) {
  LeafSpecs all;
  if constexpr (tree_detail::IsTuple<R>::value) {
    check_count("result", specs.size(), std::tuple_size_v<R>);
    std::apply(
        [&](const auto&... members) {
          size_t i = 0;
          (add_specs(all, specs, i++, members), ...);
        },
        result);
  } else {
    check_count("result", specs.size(), 1);
    add_specs(all, specs, 0, result);
  }
  return all;
}

}  // namespace spec_detail
}  // namespace cleave

#include "cleave/autoshard/tree_spec.h"

#include <algorithm>

#include "cleave/core/error.h"

namespace cleave {

std::optional<PartitionSpec> TreeSpec::of(const std::string& leaf) const {
  if (const auto it = by_name.find(leaf); it != by_name.end()) return it->second;
  return all;
}

namespace spec_detail {

LeafSpecs leaf_specs(const std::vector<TreeSpec>& specs, size_t i,
                     const std::vector<std::string>& names) {
  LeafSpecs result;
  for (const std::string& name : names)
    result.push_back(i < specs.size() ? specs[i].of(name) : std::nullopt);
  if (i < specs.size())
    for (const auto& [name, spec] : specs[i].by_name)
      if (std::ranges::find(names, name) == names.end())
        throw_user("specs: there is a spec for '{}', and no such leaf in argument {}", name, i);
  return result;
}

void check_count(const char* what, size_t specs, size_t count) {
  if (specs <= count) return;
  throw_user(
      "specs: there are {} specs for {} {}{}; a spec is for one {} with all its leaves (by "
      "name "
      "for each: TreeSpec)",
      specs, count, what, count == 1 ? "" : "s", what);
}

}  // namespace spec_detail
}  // namespace cleave

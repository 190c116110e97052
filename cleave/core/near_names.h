#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cleave {

// Letters to insert, drop, replace or swap with their neighbour.
//   edits_between("mehs", "mesh")   1
size_t edits_between(std::string_view a, std::string_view b);

// At most so many of the names, those first that need the fewest edits to become what was written;
// equally near ones in their order.
std::vector<std::string> near_names(std::string_view written, const std::vector<std::string>& names,
                                    size_t most);

}  // namespace cleave

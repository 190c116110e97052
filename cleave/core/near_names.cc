#include "cleave/core/near_names.h"

#include <algorithm>
#include <numeric>

namespace cleave {

size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  std::iota(cost[0].begin(), cost[0].end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    cost[i][0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                             cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::vector<std::string> near_names(std::string_view written, const std::vector<std::string>& names,
                                    size_t most) {
  constexpr size_t kLongest = 200;  // names beyond are cut: edits take the product of lengths
  std::vector<std::pair<size_t, size_t>> order;
  for (size_t i = 0; i < names.size(); ++i)
    order.emplace_back(
        edits_between(written.substr(0, kLongest), std::string_view(names[i]).substr(0, kLongest)),
        i);
  std::sort(order.begin(), order.end());
  if (order.size() > most) order.resize(most);
  std::vector<std::string> near;
  for (const auto& [edits, i] : order) near.push_back(names[i]);
  return near;
}

}  // namespace cleave

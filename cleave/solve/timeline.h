#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace cleave::solver {

// Memory of decision `node` during [begin, end), one usage per strategy.
struct TimedUsage {
  int node = 0;
  int begin = 0;
  int end = 0;
  std::span<const std::int64_t> usage;
};

// The times at which the limit has to be checked. Time t can be left out when it cannot exceed the
// limit, or when the limit holds at t whenever it holds at some kept time p:
//
//   base[t] + sum over nodes of max over strategies (usage at t - usage at p)  <=  base[p]
//
// `sizes[i]` is the number of strategies of node i. Returns one flag per time; when `expired` says
// that time is up, more are kept than need be.
std::vector<char> binding_times(const std::vector<std::int64_t>& base, std::int64_t limit,
                                const std::vector<TimedUsage>& usages,
                                const std::vector<int>& sizes,
                                const std::function<bool()>& expired = {});

}  // namespace cleave::solver

#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

namespace cleave::solver {

// Runs `task` in a child process and returns the numbers that it gives; nothing if it has not ended
// after `seconds`, if a stop is asked for before that, or if it dies. The child is then killed: the
// way to bound the time of a library that does not look at the clock. The child sees a copy of this
// process's memory, and nothing that it does is seen here.
std::optional<std::vector<double>> run_in_child(const std::function<std::vector<double>()>& task,
                                                double seconds, const std::stop_token& stop);

}  // namespace cleave::solver

#include <algorithm>

#include "cleave/compile/fuse.h"

namespace cleave {

bool reduction_level(const Shape& shape, const std::vector<int64_t>& dims, FusionLevel& level,
                     int64_t& columns) {
  std::vector<bool> folded;  // of the dimensions of more than one element
  int64_t folded_size = 1, kept_size = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool goes = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    (goes ? folded_size : kept_size) *= shape[d];
    if (shape[d] != 1) folded.push_back(goes);
  }
  if (folded_size == 0 || kept_size == 0) return false;
  if (kept_size == 1) {
    level = FusionLevel::Total;
    columns = 0;
    return true;
  }
  if (folded_size == 1 || !(std::is_sorted(folded.begin(), folded.end()) ||
                            std::is_sorted(folded.rbegin(), folded.rend())))
    return false;
  level = folded.back() ? FusionLevel::Rows : FusionLevel::Columns;
  columns = folded.back() ? folded_size : kept_size;
  return true;
}

bool spreads_rows(const Shape& operand, const Shape& result, const std::vector<int64_t>& dims,
                  int64_t& times) {
  size_t last = 0;  // the dimensions of `result` before it come from the operand
  int64_t covered = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto d = static_cast<size_t>(dims[i]);
    if (operand[i] == 1) continue;
    if (d < last) return false;
    for (size_t between = last; between < d; ++between)
      if (result[between] != 1) return false;
    last = d + 1;
    covered *= operand[i];
  }
  times = covered == 0 ? 0 : num_elements(result) / covered;
  return times > 0 && covered * times == num_elements(result);
}

}  // namespace cleave

#include "cleave/runtime/ops_shape.h"

#include "cleave/core/error.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        Shape shape(params.begin(), params.end());
        int64_t known = 1, unknown = -1;
        for (size_t d = 0; d < shape.size(); ++d) {
          if (shape[d] >= 0) {
            known *= shape[d];
            continue;
          }
          if (shape[d] != -1 || unknown >= 0)
            throw_user("reshape: one size may be -1, got <{}>", to_string(shape));
          unknown = static_cast<int64_t>(d);
        }
        const int64_t count = num_elements(b.shape(b.arg(0)));
        if (unknown >= 0) {
          if (known == 0 || count % known != 0)
            throw_user("reshape: the {} elements of <{}> cannot be split by {}", count,
                       to_string(b.shape(b.arg(0))), known);
          shape[static_cast<size_t>(unknown)] = count / known;
        }
        return {b.reshape(b.arg(0), std::move(shape))};
      },
      shape, {&x, 1});
}

Tensor transpose(const Tensor& x, const std::vector<int64_t>& permutation) {
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const auto rank = static_cast<int64_t>(b.shape(b.arg(0)).size());
        std::vector<int64_t> order;
        for (int64_t d : params) order.push_back(checked_dim("transpose", d, rank));
        if (order.empty())
          for (int64_t d = rank; d-- > 0;) order.push_back(d);
        return {b.transpose(b.arg(0), std::move(order))};
      },
      permutation, {&x, 1});
}

}  // namespace cleave

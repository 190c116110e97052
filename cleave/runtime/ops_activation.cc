#include "cleave/runtime/ops_activation.h"

#include "cleave/core/error.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_nn.h"
#include "cleave/runtime/ops_shape.h"

namespace cleave {
namespace {

Tensor as_real_tensor(const Tensor& x) { return cast(x, real_type(x.dtype())); }
// Zero where x is positive, so that no exponential is infinite in a branch that is not taken.
Tensor below_zero(const Tensor& x) { return where(x > 0, 0, x); }

}  // namespace

Tensor relu6(const Tensor& x) { return clip(x, 0, 6); }
Tensor leaky_relu(const Tensor& given, double slope) {
  const Tensor x = as_real_tensor(given);
  return where(x >= 0, x, x * slope);
}
Tensor prelu(const Tensor& given, const Tensor& slope) {
  const Tensor x = as_real_tensor(given);
  return where(x >= 0, x, x * slope);
}
Tensor elu(const Tensor& given, double alpha) {
  const Tensor x = as_real_tensor(given);
  return where(x > 0, x, expm1(below_zero(x)) * alpha);
}
Tensor celu(const Tensor& given, double alpha) {
  if (alpha == 0) throw_user("celu: alpha is 0; give another number, or use relu");
  const Tensor x = as_real_tensor(given);
  return where(x > 0, x, expm1(below_zero(x) / alpha) * alpha);
}
Tensor selu(const Tensor& x) {
  return elu(x, 1.6732632423543772848170429916717) * 1.0507009873554804934193349852946;
}
Tensor mish(const Tensor& given) {
  const Tensor x = as_real_tensor(given);
  return x * tanh(softplus(x));
}
Tensor hard_sigmoid(const Tensor& x) { return relu6(as_real_tensor(x) + 3) / 6; }
Tensor hard_swish(const Tensor& x) { return as_real_tensor(x) * hard_sigmoid(x); }
Tensor hard_tanh(const Tensor& x) {
  const Tensor real = as_real_tensor(x);
  return where(real > 1, 1, where(real < -1, -1, real));
}
Tensor log_sigmoid(const Tensor& x) { return -softplus(-as_real_tensor(x)); }
Tensor softsign(const Tensor& given) {
  const Tensor x = as_real_tensor(given);
  return x / (abs(x) + 1);
}
Tensor squareplus(const Tensor& given, double b) {
  const Tensor x = as_real_tensor(given);
  return (x + sqrt(square(x) + b)) * 0.5;
}
Tensor glu(const Tensor& x, int64_t dim) {
  if (x.dim(dim) % 2 != 0)
    throw_user("glu: dimension {} of tensor<{}> has no two halves", dim, to_string(x.shape()));
  const std::vector<Tensor> halves = split(as_real_tensor(x), 2, dim);
  return halves[0] * sigmoid(halves[1]);
}

}  // namespace cleave

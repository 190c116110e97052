
#include "cleave/core/error.h"
#include "cleave/runtime/ops_collective.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_distribution.h"
#include "cleave/runtime/ops_random.h"
#include "cleave/runtime/ops_shape.h"
#include "tensors.h"

namespace cleave::python {
namespace {

using namespace nb::literals;
using Standard = Tensor (*)(const Tensor&, const Shape&, DType);
using Shaped = Tensor (*)(const Tensor&, const Operand&, const Shape&, DType);

// Without a shape: that of the parameter.
Shape shape_like(nb::handle shape, nb::handle parameter) {
  if (!shape.is_none()) return to_ints(shape);
  return number_of(parameter) ? Shape{} : to_tensor(parameter).shape();
}

void bind_standard(nb::module_& m, const char* name, Standard f, const char* dtype = "float32") {
  define(m, name, f, "key"_a, "shape"_a = nb::tuple(), "dtype"_a = dtype);
}

void bind_shaped(nb::module_& m, const char* name, Shaped f, const char* parameter,
                 const char* dtype = "float32") {
  m.def(
      name,
      [f](nb::handle key, nb::handle value, nb::handle shape, nb::handle type) {
        return f(to_tensor(key), HeldOperand(value), shape_like(shape, value), to_dtype(type));
      },
      "key"_a, nb::arg(parameter), "shape"_a = nb::none(), "dtype"_a = dtype);
}

Tensor bernoulli_of(nb::handle key, nb::handle p, nb::handle shape) {
  const Shape wanted = shape_like(shape, p);
  if (PyFloat_Check(p.ptr())) return bernoulli(to_tensor(key), wanted, PyFloat_AS_DOUBLE(p.ptr()));
  return bernoulli(to_tensor(key), wanted, to_tensor(p));
}

// JAX gives the whole shape, the batch of the logits at its end.
Tensor categorical_of(nb::handle key, nb::handle logits, int64_t axis, nb::handle shape) {
  const Tensor x = to_tensor(logits);
  if (shape.is_none()) return categorical(to_tensor(key), x, {}, axis);
  Shape batch = x.shape(), wanted = to_ints(shape);
  x.dim(axis);  // it must be there
  batch.erase(batch.begin() + (axis < 0 ? axis + x.rank() : axis));
  if (wanted.size() < batch.size() || !std::equal(batch.rbegin(), batch.rend(), wanted.rbegin()))
    throw_user("categorical: the shape <{}> does not end with that of the logits, <{}>",
               to_string(wanted), to_string(batch));
  wanted.resize(wanted.size() - batch.size());
  return categorical(to_tensor(key), x, wanted, axis);
}

Tensor choice_of(nb::handle key, nb::handle a, nb::handle shape, bool replace, nb::handle p) {
  const Tensor from = PyLong_Check(a.ptr()) ? arange(to_scalar(a)) : to_tensor(a);
  const Shape wanted = to_ints(shape);
  const Tensor drawn = choice(to_tensor(key), from, num_elements(wanted),
                              {replace, p.is_none() ? Tensor() : to_tensor(p)});
  Shape whole = wanted;
  whole.insert(whole.end(), from.shape().begin() + 1, from.shape().end());
  return reshape(drawn, whole);
}

void bind_distributions(nb::module_& m) {
  bind_standard(m, "rademacher", rademacher, "int32");
  bind_standard(m, "gumbel", gumbel);
  bind_standard(m, "exponential", exponential);
  bind_standard(m, "laplace", laplace);
  bind_standard(m, "logistic", logistic);
  bind_standard(m, "cauchy", cauchy);
  bind_shaped(m, "gamma", gamma, "a");
  bind_shaped(m, "loggamma", log_gamma, "a");
  bind_shaped(m, "chisquare", chi_square, "df");
  bind_shaped(m, "t", student_t, "df");
  bind_shaped(m, "poisson", poisson, "lam", "int32");
  define(m, "truncated_normal", truncated_normal, "key"_a, "lower"_a, "upper"_a,
         "shape"_a = nb::tuple(), "dtype"_a = "float32");
  m.def(
      "beta",
      [](nb::handle key, nb::handle a, nb::handle b, nb::handle shape, nb::handle type) {
        return beta(to_tensor(key), HeldOperand(a), HeldOperand(b), shape_like(shape, a),
                    to_dtype(type));
      },
      "key"_a, "a"_a, "b"_a, "shape"_a = nb::none(), "dtype"_a = "float32");
  define(m, "dirichlet", dirichlet, "key"_a, "alpha"_a, "shape"_a = nb::tuple(),
         "dtype"_a = "float32");
  m.def("bernoulli", &bernoulli_of, "key"_a, "p"_a = 0.5, "shape"_a = nb::none());
  m.def("categorical", &categorical_of, "key"_a, "logits"_a, "axis"_a = -1, "shape"_a = nb::none());
  m.def(
      "permutation",
      [](nb::handle key, nb::handle x, int64_t axis) {
        if (PyLong_Check(x.ptr())) return permutation(to_tensor(key), to_ints(x)[0]);
        return permutation(to_tensor(key), to_tensor(x), axis);
      },
      "key"_a, "x"_a, "axis"_a = 0);
  m.def("choice", &choice_of, "key"_a, "a"_a, "shape"_a = nb::tuple(), "replace"_a = true,
        "p"_a = nb::none(), "Elements along the first dimension.");
}

ReduceOp reduction_of(const std::string& name) {
  if (auto op = reduce_op_from_name(name)) return *op;
  throw_user("'{}' is no reduction; write sum, max, min, ...", name);
}

}  // namespace

void bind_random(nb::module_& m) {
  nb::module_ r = m.def_submodule("random", "Random numbers that do not depend on layouts.");
  define(r, "key", random_key, "seed"_a);
  define(r, "split", split_key, "key"_a, "num"_a = 2);
  define(r, "bits", random_bits, "key"_a, "shape"_a = nb::tuple(), "dtype"_a = "uint32");
  r.def(
      "uniform",
      [](nb::handle key, nb::handle shape, nb::handle dtype, double low, double high) {
        return uniform(to_tensor(key), to_ints(shape), low, high, to_dtype(dtype));
      },
      "key"_a, "shape"_a = nb::tuple(), "dtype"_a = "float32", "minval"_a = 0.0, "maxval"_a = 1.0);
  define(r, "normal", normal, "key"_a, "shape"_a = nb::tuple(), "dtype"_a = "float32");
  define(r, "randint", randint, "key"_a, "shape"_a, "minval"_a, "maxval"_a, "dtype"_a = "int32");
  define(r, "randn", randn, "shape"_a, "seed"_a = nb::none(), "dtype"_a = "float32",
         "Normal numbers; without a seed, the n-th call of a thread takes n.");
  define(r, "rand", rand, "shape"_a, "seed"_a = nb::none(), "dtype"_a = "float32");
  bind_distributions(r);
}

void bind_collectives(nb::module_& m) {
  nb::module_ c = m.def_submodule("comm", "Communication by name.");
  c.def(
      "all_reduce",
      [](nb::handle x, nb::handle axes, const std::string& op) {
        return all_reduce(to_tensor(x), to_entry(axes), reduction_of(op));
      },
      "x"_a, "axes"_a, "op"_a = "sum");
  c.def(
      "all_gather",
      [](nb::handle x, nb::handle axes, int64_t axis) {
        return all_gather(to_tensor(x), to_entry(axes), axis);
      },
      "x"_a, "axes"_a, "axis"_a = 0);
  c.def(
      "reduce_scatter",
      [](nb::handle x, nb::handle axes, int64_t axis) {
        return reduce_scatter(to_tensor(x), to_entry(axes), axis);
      },
      "x"_a, "axes"_a, "axis"_a = 0);
  c.def(
      "all_to_all",
      [](nb::handle x, nb::handle axes, int64_t from, int64_t to) {
        return all_to_all(to_tensor(x), to_entry(axes), from, to);
      },
      "x"_a, "axes"_a, "from_axis"_a, "to_axis"_a);
  c.def(
      "ppermute",
      [](nb::handle x, const std::string& axis,
         const std::vector<std::pair<int64_t, int64_t>>& pairs) {
        return ppermute(to_tensor(x), axis, pairs);
      },
      "x"_a, "axis"_a, "pairs"_a);
  c.def(
      "axis_index", [](nb::handle axes) { return axis_index(to_entry(axes)); }, "axes"_a);
}

}  // namespace cleave::python

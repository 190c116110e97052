
#include "cleave/core/error.h"
#include "cleave/runtime/ops_arrange.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_indexing.h"
#include "cleave/runtime/ops_matrix.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "tensors.h"

namespace cleave::python {
namespace {

using namespace nb::literals;
using Axis = std::optional<int64_t>;

Tensor joined(const Tensors& all, Axis axis) {
  if (axis) return concat(all, *axis);
  Tensors flat;
  for (const Tensor& x : all) flat.push_back(flatten(x));
  return concat(flat, 0);
}

// Equal parts, or parts that end before the indices.
Tensors parts(nb::handle array, nb::handle sections, int64_t axis) {
  const Tensor x = to_tensor(array);
  if (PyIndex_Check(sections.ptr()) && !nb::hasattr(sections, "__iter__"))
    return split(x, to_ints(sections)[0], axis);
  Ints sizes;
  int64_t begin = 0;
  for (int64_t end : to_ints(sections)) {
    sizes.push_back(end - begin);
    begin = end;
  }
  sizes.push_back(x.dim(axis) - begin);
  return split(x, sizes, axis);
}

PadMode pad_mode(const std::string& mode) {
  if (mode == "edge") return PadMode::Edge;
  if (mode == "reflect") return PadMode::Reflect;
  if (mode == "symmetric") return PadMode::Symmetric;
  if (mode == "wrap") return PadMode::Wrap;
  throw_user("pad: mode is constant, edge, reflect, symmetric or wrap, not '{}'", mode);
}

Tensor padded(nb::handle array, const Ints& low, const Ints& high, const std::string& mode,
              nb::handle value, const Ints& interior) {
  const Tensor x = to_tensor(array);
  if (mode == "constant") return pad(x, low, high, to_scalar(value), interior);
  return pad(x, low, high, pad_mode(mode));
}

void bind_moves(nb::module_& m) {
  define(m, "reshape", reshape, "a"_a, "shape"_a);
  define(m, "transpose", transpose, "a"_a, "axes"_a = nb::none());
  define(m, "permute_dims", transpose, "a"_a, "axes"_a);
  define(m, "swapaxes", swap_dims, "a"_a, "axis1"_a, "axis2"_a);
  define(m, "squeeze", squeeze, "a"_a, "axis"_a = nb::none());
  define(m, "broadcast_to", broadcast_to, "array"_a, "shape"_a);
  define(m, "ravel", flatten, "a"_a);
  define(m, "flip", flip, "m"_a, "axis"_a = nb::none());
  define(m, "tile", tile, "A"_a, "reps"_a);
  define(m, "triu", triu, "m"_a, "k"_a = 0);
  define(m, "tril", tril, "m"_a, "k"_a = 0);
  define(m, "rot90", rot90, "m"_a, "k"_a = 1, "axes"_a = std::pair<int64_t, int64_t>(0, 1));
  define(m, "diff", diff, "a"_a, "n"_a = 1, "axis"_a = -1);
  define(m, "unfold", unfold, "x"_a, "axis"_a, "size"_a, "step"_a = 1,
         "Windows along a dimension; their elements are a new last one.");
  define(m, "chunk", chunk, "x"_a, "parts"_a, "axis"_a = 0,
         "At most so many parts, all of one size but the last.");
  define(m, "_move_axis", move_dim, "a"_a, "source"_a, "destination"_a);
  m.def(
      "expand_dims", [](nb::handle a, int64_t axis) { return expand_dims(to_tensor(a), axis); },
      "a"_a, "axis"_a);
  m.def(
      "concatenate", [](nb::handle all, Axis axis) { return joined(to_tensors(all), axis); },
      "arrays"_a, "axis"_a = 0);
  m.def(
      "concat", [](nb::handle all, Axis axis) { return joined(to_tensors(all), axis); }, "arrays"_a,
      "axis"_a = 0);
  define(m, "stack", static_cast<Tensor (*)(std::span<const Tensor>, int64_t)>(stack), "arrays"_a,
         "axis"_a = 0);
  m.def("split", &parts, "ary"_a, "indices_or_sections"_a, "axis"_a = 0);
  m.def("_pad", &padded, "array"_a, "low"_a, "high"_a, "mode"_a, "value"_a, "interior"_a = Ints());
  m.def(
      "roll",
      [](nb::handle a, int64_t shift, Axis axis) {
        const Tensor x = to_tensor(a);
        return axis ? roll(x, shift, *axis) : reshape(roll(flatten(x), shift, 0), x.shape());
      },
      "a"_a, "shift"_a, "axis"_a = nb::none());
  m.def(
      "repeat",
      [](nb::handle a, int64_t repeats, Axis axis) {
        const Tensor x = to_tensor(a);
        return axis ? repeat(x, repeats, *axis) : repeat(flatten(x), repeats, 0);
      },
      "a"_a, "repeats"_a, "axis"_a = nb::none());
}

void bind_indexing(nb::module_& m) {
  m.def(
      "take",
      [](nb::handle a, nb::handle indices, Axis axis) {
        const Tensor x = to_tensor(a), ids = to_tensor(indices);
        return axis ? take(x, ids, *axis) : take(flatten(x), ids, 0);
      },
      "a"_a, "indices"_a, "axis"_a = nb::none(), "Indices beyond the ends take the nearest.");
  define(m, "take_along_axis", take_along, "arr"_a, "indices"_a, "axis"_a);
  define(m, "scatter_add", scatter_add, "x"_a, "indices"_a, "updates"_a, "axis"_a = 0);
  define(m, "scatter_max", scatter_max, "x"_a, "indices"_a, "updates"_a, "axis"_a = 0);
  define(m, "scatter_set", scatter_set, "x"_a, "indices"_a, "updates"_a, "axis"_a = 0);
  define(m, "dynamic_slice", dynamic_slice, "operand"_a, "start_indices"_a, "slice_sizes"_a);
  define(m, "dynamic_update_slice", dynamic_update_slice, "operand"_a, "update"_a,
         "start_indices"_a);
}

void bind_diagonals(nb::module_& m) {
  define(m, "diag", diag, "v"_a, "k"_a = 0);
  define(m, "diagonal", diagonal, "a"_a, "offset"_a = 0, "axis1"_a = 0, "axis2"_a = 1);
  m.def(
      "trace",
      [](nb::handle a, int64_t offset, int64_t axis1, int64_t axis2) {
        return sum(diagonal(to_tensor(a), offset, axis1, axis2), {-1});
      },
      "a"_a, "offset"_a = 0, "axis1"_a = 0, "axis2"_a = 1);
  m.def(
      "_meshgrid", [](nb::handle all, bool xy) { return meshgrid(to_tensors(all), xy); },
      "vectors"_a, "xy"_a);
}

}  // namespace

void bind_shape_ops(nb::module_& m) {
  nb::module_ np = nb::borrow<nb::module_>(m.attr("numpy"));
  bind_moves(np);
  bind_indexing(np);
  bind_diagonals(np);
}

}  // namespace cleave::python

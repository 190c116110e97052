#include "cleave/runtime/ops_sharding.h"

#include "cleave/core/error.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

// A spec as params: the mesh (one object per mesh, never freed), then axes.
void write_axes(std::vector<int64_t>& words, const AxisList& axes) {
  words.push_back(static_cast<int64_t>(axes.size()));
  for (const AxisRef& ref : axes) words.insert(words.end(), {ref.axis, ref.pre, ref.size});
}

std::vector<int64_t> spec_params(const ShardingSpec& spec) {
  std::vector<int64_t> words{
      static_cast<int64_t>(reinterpret_cast<intptr_t>(shared_mesh(*spec.mesh).get())),
      static_cast<int64_t>(spec.partial_op), static_cast<int64_t>(spec.dims.size())};
  for (const DimSpec& dim : spec.dims) {
    write_axes(words, dim.axes);
    words.insert(words.end(), {dim.open, dim.priority.has_value(), dim.priority.value_or(0)});
  }
  write_axes(words, spec.replicated);
  write_axes(words, spec.partial);
  return words;
}

ShardingSpec spec_from(std::span<const int64_t> words) {
  const auto* mesh = reinterpret_cast<const Mesh*>(static_cast<intptr_t>(words[0]));
  ShardingSpec spec;
  spec.mesh = shared_mesh(*mesh);
  spec.partial_op = static_cast<ReduceOp>(words[1]);
  spec.dims.resize(static_cast<size_t>(words[2]));
  size_t next = 3;
  auto read_axes = [&](AxisList& axes) {
    const int64_t count = words[next++];
    for (int64_t i = 0; i < count; ++i, next += 3)
      axes.push_back({static_cast<int32_t>(words[next]), static_cast<int32_t>(words[next + 1]),
                      static_cast<int32_t>(words[next + 2])});
  };
  for (DimSpec& dim : spec.dims) {
    read_axes(dim.axes);
    dim.open = words[next] != 0;
    if (words[next + 1]) dim.priority = words[next + 2];
    next += 3;
  }
  read_axes(spec.replicated);
  read_axes(spec.partial);
  return spec;
}

std::vector<ValueId> emit_constraint(GraphBuilder& b, const char* op,
                                     std::span<const int64_t> params) {
  AttrDict attrs;
  attrs.set("sharding", ShardingAttr{spec_from(params)});
  return {b.emit_as(b.type(b.arg(0)), op, {b.arg(0)}, std::move(attrs))};
}

}  // namespace

Tensor constrain(const Tensor& x, const ShardingSpec& spec, std::string_view op) {
  const std::string_view caller = op == "sdy.reshard" ? "reshard" : "with_sharding";
  if (!x.valid()) throw_user("{}: the Tensor is empty: assign it a value first", caller);
  if (!spec.mesh) throw_user("{}: the sharding has no mesh", caller);
  verify(spec, x.shape());
  if (const std::optional<Tensor> made = made_in_layout(x, spec)) return *made;
  const std::vector<int64_t> params = spec_params(spec);
  const FormFn form =
      op == "sdy.reshard"
          ? [](GraphBuilder& b,
               std::span<const int64_t> p) { return emit_constraint(b, "sdy.reshard", p); }
          : [](GraphBuilder& b, std::span<const int64_t> p) {
              return emit_constraint(b, "sdy.sharding_constraint", p);
            };
  return record_one(form, params, {&x, 1});
}

}  // namespace cleave

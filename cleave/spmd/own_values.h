#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "cleave/core/sharding.h"
#include "cleave/graph/builder.h"
#include "cleave/graph/graph.h"

namespace cleave {

// Numbers by device.
using ByDevice = std::vector<int64_t>;

// Writes what differs between devices into a program that is the same for all of them: numbers come
// from tables, read at the device's own place (stablehlo.partition_id).
//
//   OwnValues own(graph, 4);
//   own.in(region).number({0, 3, 6, 9})      %t = constant dense<[0, 3, 6, 9]>
//                                            %n = dynamic_slice %t, %place, sizes = [1], reshaped
//   own.in(region).number({2, 2, 2, 2})      constant dense<2>
//
// Tables are written once for each region. Regions do not use those of regions around them, so that
// bodies of loops stay closed.
class OwnValues {
 public:
  OwnValues(Graph& graph, int64_t devices) : graph_(graph), devices_(devices) {}

  // Where the next ops are written: at the end of this region.
  OwnValues& in(RegionId region) {
    region_ = region;
    return *this;
  }
  RegionId region() const { return region_; }
  GraphBuilder builder() { return GraphBuilder(graph_, region_); }
  int64_t devices() const { return devices_; }
  Graph& graph() { return graph_; }

  // A scalar of its own for each device.
  ValueId number(const ByDevice& values, DType dtype = DType::I32);
  ValueId flag(const std::vector<bool>& values);
  // A constant of one type for each device; they are not all equal.
  ValueId literal(const std::vector<Literal>& literals);

  // Elements [start, start + size) by device; `starts` is by dimension. The operand is extended by
  // zeros if a window ends beyond it.
  ValueId window(ValueId value, const std::vector<ByDevice>& starts, const Shape& size);
  // Puts a part into a value at places of each device, where it must fit.
  ValueId put(ValueId into, ValueId part, const std::vector<ByDevice>& starts);
  // The leading corner of a value, or the value extended by `fill` (by zeros if there is none).
  ValueId fit(ValueId value, const Shape& size, const Literal* fill = nullptr);
  // `value` in its first elements along each dimension, as many as `sizes` say, and `other` in the
  // rest. Sizes are by dimension; one that is all of the dimension everywhere needs no mask.
  ValueId within(ValueId value, const std::vector<ByDevice>& sizes, ValueId other);
  // The same with a constant for the rest.
  ValueId within(ValueId value, const std::vector<ByDevice>& sizes, const Literal& other);

  ValueId constant(Literal literal);
  ValueId zeros(const Type& type);

 private:
  ValueId place();  // of the device, i32
  // A row of a table, whose rows have the type.
  ValueId row(Literal table, const Type& type, ValueId at);
  std::vector<ValueId> numbers(const std::vector<ByDevice>& values);

  Graph& graph_;
  int64_t devices_;
  RegionId region_;
  std::map<RegionId, ValueId> places_;
  std::map<std::tuple<RegionId, DType, ByDevice>, ValueId> numbers_;
};

// A splat of zero bytes, for any dtype.
Literal zero_literal(Type type);

}  // namespace cleave

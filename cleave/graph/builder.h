#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// Writes nodes into a region, inferring result types: the short way for code that makes graphs.
//
//   Graph graph;
//   GraphBuilder b = GraphBuilder::function(graph, "main", {Type::tensor(DType::F32, {8, 4})});
//   ValueId y = b.emit("stablehlo.exponential", {b.arg(0)});
//   b.finish({b.reduce(y, "stablehlo.add", 0.0, {1})});
class GraphBuilder {
 public:
  GraphBuilder(Graph& graph, RegionId region) : graph_(graph), region_(region) {}
  // Adds a function with arguments of these types and stands in its body.
  static GraphBuilder function(Graph& graph, std::string name, std::vector<Type> args);

  Graph& graph() { return graph_; }
  RegionId region() const { return region_; }
  ValueId arg(size_t i) const { return graph_.region(region_).args[i]; }
  const Type& type(ValueId value) const { return graph_.type(value); }
  const Shape& shape(ValueId value) const { return graph_.type(value).shape; }
  DType dtype(ValueId value) const { return graph_.type(value).dtype; }

  // Any op whose result types follow from operands and attributes. Throws UserError if they do
  // not fit; the graph is then unchanged but for a dead node.
  ValueId emit(std::string_view op, std::vector<ValueId> operands, AttrDict attrs = {});
  std::vector<ValueId> emit_all(std::string_view op, std::vector<ValueId> operands,
                                AttrDict attrs = {});
  // An op whose result type is part of it: reshape, broadcast_in_dim, iota, convert.
  ValueId emit_as(Type result, std::string_view op, std::vector<ValueId> operands,
                  AttrDict attrs = {});

  // A splat constant; `value` is rounded to the dtype.
  ValueId constant(double value, DType dtype, Shape shape = {});
  ValueId constant_like(double value, ValueId like) {
    return constant(value, dtype(like), shape(like));
  }
  ValueId binary(std::string_view op, ValueId a, ValueId b) { return emit(op, {a, b}); }
  ValueId broadcast(ValueId value, Shape shape, std::vector<int64_t> dims);
  ValueId reshape(ValueId value, Shape shape);
  ValueId transpose(ValueId value, std::vector<int64_t> permutation);
  ValueId convert(ValueId value, DType dtype);
  ValueId compare(std::string_view direction, ValueId a, ValueId b);  // "EQ", "LT", ...
  ValueId iota(DType dtype, Shape shape, int64_t dim);
  ValueId slice(ValueId value, std::vector<int64_t> start, std::vector<int64_t> limit);
  // A reduction with a one-op body ("stablehlo.add") from a scalar start.
  ValueId reduce(ValueId value, std::string_view op, double init, std::vector<int64_t> dims);
  // The same with the reduced dimensions put back at size 1, broadcast to the shape of `value`.
  ValueId reduce_and_broadcast(ValueId value, std::string_view op, double init,
                               std::vector<int64_t> dims);

  // Ends the region with func.return (of a function) or stablehlo.return, and sets the function's
  // result types.
  void finish(std::vector<ValueId> results);

 private:
  Graph& graph_;
  RegionId region_;
};

}  // namespace cleave

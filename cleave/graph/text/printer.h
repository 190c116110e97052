#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/text/op_syntax.h"
#include "cleave/graph/text/text.h"

namespace cleave::text {

// Prints ops of a graph. `out` is the text so far. The syntaxes of single ops are in op_format.cc
// (by table) and region_ops.cc (by hand); they use the methods below.
class Printer {
 public:
  Printer(const Graph& graph, const PrintOptions& options)
      : graph(graph), options(options), names(value_names(graph, options.generic)) {}

  void module();
  void node(NodeId id, bool in_function_body);

  void value(ValueId id) { out += names[id.index]; }
  void values(std::span<const ValueId> ids);  // %0, %1
  void type_of(ValueId id);
  void types_of(std::span<const ValueId> ids);  // tensor<2xf32>, i32
  void signature(const Node& node);             // (a, b) -> c
  void region_argument(ValueId id);             // %arg0: tensor<2xf32>
  void attribute(const Attribute& attribute);
  // ` {a = 1 : i64}`: the attributes for which `elided` is false; nothing if none is left.
  void attr_dict(const Node& node, const std::function<bool(std::string_view)>& elided,
                 std::string_view before = " ");
  // { ... } with the ops indented; with `header`, its arguments as ^bb0(...):
  void region(RegionId id, bool header, bool is_function_body = false);
  void new_line();
  void generic_tail(const Node& node);  // from the operands on
  // Whether an attribute holds its default, so that the pretty syntax leaves it out.
  bool is_default(const Node& node, std::string_view attribute) const;

  const Graph& graph;
  const PrintOptions& options;
  std::vector<std::string> names;
  std::string out;

 private:
  void function(const Function& function);
  void generic_function(const Function& function);
  void mesh(const Mesh& mesh);
  void results(const Node& node);
  void location(const std::string& text);

  int indent_ = 0;
};

// pretty_check.cc: whether the pretty syntax can say everything about the node. If not (an
// attribute is missing or of another kind, types that the syntax takes for granted differ), it
// prints generically.
bool has_pretty_form(const Graph& graph, const OpSyntax& syntax, const Node& node);

// op_format.cc
void print_by_format(Printer& printer, const OpSyntax& syntax, const Node& node);

// region_ops.cc: null if there is none.
using PrintFn = void (*)(Printer&, const Node&);
PrintFn custom_printer(std::string_view op);

}  // namespace cleave::text

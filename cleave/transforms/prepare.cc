#include "cleave/transforms/prepare.h"

#include <set>

#include "cleave/core/error.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/control/trip_count.h"
#include "cleave/ops/expr.h"
#include "cleave/ops/op.h"
#include "cleave/transforms/activity.h"
#include "cleave/transforms/scan_node.h"

namespace cleave {
namespace {

class Preparer {
 public:
  Preparer(Graph& graph, DiffMode mode) : graph_(graph), mode_(mode) {}

  void mark(ValueId id) {
    if (is_differentiable(graph_.type(id))) active_.insert(id);
  }

  // Writes the nodes of a region; gives what its terminator returns.
  std::vector<ValueId> region(RegionId source, RegionId target, ValueTable& table) {
    const std::vector<NodeId> nodes = graph_.region(source).nodes;
    for (size_t i = 0; i + 1 < nodes.size(); ++i) node(nodes[i], target, table);
    const std::vector<ValueId> returned = graph_.node(nodes.back()).operands;
    return table.map(returned);
  }

 private:
  bool is_active(ValueId id) const { return active_.contains(id); }
  bool any_active(const std::vector<ValueId>& ids) const {
    for (ValueId id : ids)
      if (is_active(id)) return true;
    return false;
  }
  bool touches_active(const Node& node, const ValueTable& table) const {
    return any_active(table.map(node.operands)) ||
           any_active(table.map(captured_values(graph_, node.regions)));
  }

  void node(NodeId id, RegionId target, ValueTable& table) {
    const Node node = graph_.node(id);
    const std::vector<ValueId> operands = table.map(node.operands);
    if (is<op::GetTupleElement>(node)) {
      const NodeId tuple = graph_.value(operands[0]).producer;
      if (tuple.valid() && is<op::Tuple>(graph_.node(tuple))) {
        const auto index = static_cast<size_t>(node.attrs.get_int("index"));
        return table.set(node.results[0], graph_.node(tuple).operands[index]);
      }
    }
    if (!touches_active(node, table)) {
      copy_within(graph_, id, target, table);
      return;
    }
    if (stops_gradient(node)) {
      copy_within(graph_, id, target, table);
      return;
    }
    if (is_named(node, kCustomVjp) && mode_ == DiffMode::Reverse) return plain(id, target, table);
    if ((is_named(node, kCheckpoint) || is_named(node, kKeep)) && mode_ == DiffMode::Reverse)
      return with_regions(id, target, table);
    switch (flow_of(node)) {
      case Flow::Call:
        return inline_body(node, callee_with_body(graph_, node).body, operands, target, table);
      case Flow::Named:
        return inline_body(node, node.regions[0], operands, target, table);
      case Flow::Scan:
        return scan(node, operands, target, table);
      case Flow::Loop:
        if (mode_ == DiffMode::Reverse && counted(node, operands, target, table)) return;
        return with_regions(id, target, table);
      case Flow::Branches:
      case Flow::Manual:
        return with_regions(id, target, table);
      case Flow::None:
      case Flow::Barrier:
        break;
    }
    if (!expanded(node, operands, target, table)) plain(id, target, table);
  }

  // An op without a rule, written as those that it consists of.
  bool expanded(const Node& node, const std::vector<ValueId>& operands, RegionId target,
                ValueTable& table) {
    if (!node.def->expands_in(kInDerivatives)) return false;
    GraphBuilder b(graph_, target);
    const size_t before = graph_.region(target).nodes.size();
    const std::vector<ValueId> results = node.def->expand(b, node, operands, kInDerivatives);
    if (results.empty()) return false;
    for (size_t i = before; i < graph_.region(target).nodes.size(); ++i)
      for (ValueId result : graph_.node(graph_.region(target).nodes[i]).results) mark(result);
    for (size_t i = 0; i < results.size(); ++i) table.set(node.results[i], results[i]);
    return true;
  }

  void plain(NodeId id, RegionId target, ValueTable& table) {
    const NodeId copy = copy_within(graph_, id, target, table);
    const std::vector<ValueId> results = graph_.node(copy).results;
    for (ValueId result : results) mark(result);
  }

  void inline_body(const Node& node, RegionId body, const std::vector<ValueId>& operands,
                   RegionId target, ValueTable& table) {
    table.set(graph_.region(body).args, operands);
    table.set(node.results, region(body, target, table));
  }

  // Regions with their arguments; conservative: what flows in anywhere may flow anywhere.
  void with_regions(NodeId id, RegionId target, ValueTable& table) {
    const Node node = graph_.node(id);
    Cloner clone(graph_, &table);
    const NodeId copy = clone.shell(id);
    graph_.append(target, copy);
    for (ValueId result : graph_.node(copy).results) mark(result);
    for (RegionId source : node.regions) {
      const RegionId inner = graph_.add_region(copy);
      clone.arguments(source, inner);
      for (ValueId arg : graph_.region(inner).args) mark(arg);
      const std::string end = graph_.node(graph_.terminator(source)).name();
      std::vector<ValueId> returned = region(source, inner, table);
      end_region(graph_, inner, end, std::move(returned));
    }
  }

  // Along dimension 0, with carries that never change taken from outside.
  void scan(const Node& node, const std::vector<ValueId>& operands, RegionId target,
            ValueTable& table) {
    const ScanParts parts = scan_parts(node);
    GraphBuilder b(graph_, target);
    const int64_t dim = node.attrs.get_int("dimension");
    auto moved = [&](ValueId value, bool back) {
      std::vector<int64_t> order = other_dims({dim}, b.shape(value).size());
      order.insert(order.begin(), dim);
      if (back) {
        order = all_dims(b.shape(value).size());
        order.erase(order.begin());
        order.insert(order.begin() + dim, 0);
      }
      const ValueId result = transpose({&b, value}, order);
      if (is_active(value)) mark(result);
      return result;
    };
    const std::vector<ValueId> args = graph_.region(node.regions[0]).args;
    const std::vector<ValueId> out = graph_.node(graph_.terminator(node.regions[0])).operands;
    std::vector<ValueId> inputs, carries;
    std::vector<ValueId> kept_args, kept_out;
    for (size_t i = 0; i < parts.inputs; ++i) inputs.push_back(moved(operands[i], false));
    const RegionId inner = graph_.add_region();
    for (size_t i = 0; i < parts.inputs; ++i) {
      const Type type = graph_.type(args[i]);
      table.set(args[i], graph_.add_argument(inner, type));
      mark(table[args[i]]);
    }
    std::vector<size_t> kept;
    for (size_t i = 0; i < parts.carries; ++i) {
      const ValueId arg = args[parts.inputs + i], operand = operands[parts.inputs + i];
      if (out[parts.outputs + i] == arg) {
        table.set(arg, operand);
        table.set(node.results[parts.outputs + i], operand);
      } else {
        const Type type = graph_.type(arg);
        table.set(arg, graph_.add_argument(inner, type));
        mark(table[arg]);
        kept.push_back(i);
        carries.push_back(operand);
      }
    }
    const std::vector<ValueId> returned = region(node.regions[0], inner, table);
    std::vector<ValueId> results(returned.begin(),
                                 returned.begin() + static_cast<ptrdiff_t>(parts.outputs));
    for (size_t i : kept) results.push_back(returned[parts.outputs + i]);
    const std::vector<ValueId> values =
        open_scan(b, inputs, carries, inner, results, node.attrs.get_bool("is_reverse", false));
    for (size_t i = 0; i < parts.outputs; ++i) table.set(node.results[i], moved(values[i], true));
    for (size_t i = 0; i < kept.size(); ++i)
      table.set(node.results[parts.outputs + kept[i]], values[parts.outputs + i]);
  }

  // A scan whose body sees the values around it, for the transform's eyes only.
  std::vector<ValueId> open_scan(GraphBuilder& b, std::vector<ValueId> inputs,
                                 const std::vector<ValueId>& carries, RegionId body,
                                 const std::vector<ValueId>& returned, bool is_reverse) {
    const int64_t steps = b.shape(inputs[0])[0];
    const size_t outputs = returned.size() - carries.size();
    std::vector<Type> types;
    for (size_t i = 0; i < returned.size(); ++i) {
      Type type = graph_.type(returned[i]);
      if (i < outputs) type.shape.insert(type.shape.begin(), steps);
      types.push_back(std::move(type));
    }
    AttrDict attrs;
    attrs.set("dimension", int_attr(0));
    attrs.set("operandSegmentSizes", ints_attr({static_cast<int64_t>(inputs.size()),
                                                static_cast<int64_t>(carries.size())}));
    if (is_reverse) attrs.set("is_reverse", true);
    inputs.insert(inputs.end(), carries.begin(), carries.end());
    const NodeId node = graph_.add_node("chlo.scan", inputs, std::move(types), std::move(attrs));
    const RegionId inner = graph_.add_region(node);
    const Region source = graph_.region(body);
    adopt(graph_, inner, source.args, source.nodes);
    end_region(graph_, inner, "stablehlo.return", returned);
    graph_.append(b.region(), node);
    const std::vector<ValueId> results = graph_.node(node).results;
    for (ValueId result : results) mark(result);
    return results;
  }

  // while -> scan over the counter's values.
  bool counted(const Node& node, const std::vector<ValueId>& operands, RegionId target,
               ValueTable& table) {
    const auto found = counted_loop(graph_, node, [&](ValueId value) { return table.map(value); });
    if (!found || graph_.type(operands[found->counter]).rank() != 0) return false;
    const CountedLoop loop = *found;
    if (loop.trips == 0) {
      for (size_t i = 0; i < operands.size(); ++i) table.set(node.results[i], operands[i]);
      return true;
    }
    GraphBuilder b(graph_, target);
    const DType dtype = b.dtype(operands[loop.counter]);
    Expr counts = iota(b, dtype, {loop.trips}, 0);
    if (loop.step != 1) counts = counts * static_cast<double>(loop.step);
    if (loop.begin != 0) counts = counts + static_cast<double>(loop.begin);
    const std::vector<ValueId> args = graph_.region(node.regions[1]).args;
    const std::vector<ValueId> out = graph_.node(graph_.terminator(node.regions[1])).operands;
    const RegionId inner = graph_.add_region();
    table.set(args[loop.counter], graph_.add_argument(inner, Type::tensor(dtype, {})));
    std::vector<size_t> kept;
    std::vector<ValueId> carries;
    for (size_t i = 0; i < args.size(); ++i) {
      if (i == loop.counter) continue;
      if (out[i] == args[i]) {
        table.set(args[i], operands[i]);
        table.set(node.results[i], operands[i]);
        continue;
      }
      const Type type = graph_.type(args[i]);
      table.set(args[i], graph_.add_argument(inner, type));
      mark(table[args[i]]);
      kept.push_back(i);
      carries.push_back(operands[i]);
    }
    const std::vector<ValueId> returned = region(node.regions[1], inner, table);
    std::vector<ValueId> results;
    for (size_t i : kept) results.push_back(returned[i]);
    const std::vector<ValueId> values = open_scan(b, {counts.id}, carries, inner, results, false);
    for (size_t i = 0; i < kept.size(); ++i) table.set(node.results[kept[i]], values[i]);
    table.set(node.results[loop.counter],
              b.constant(static_cast<double>(loop.begin + loop.step * loop.trips), dtype));
    return true;
  }

  Graph& graph_;
  DiffMode mode_;
  std::set<ValueId> active_;  // of the copy; conservative
};

}  // namespace

RegionId prepare(Graph& graph, std::string_view function, const std::vector<size_t>& args,
                 DiffMode mode) {
  const Function* found = graph.find_function(function);
  if (!found || !found->body.valid())
    throw_user("there is no function @{} with a body to differentiate", function);
  const RegionId source = found->body;
  const RegionId target = graph.add_region();
  ValueTable table;
  Preparer preparer(graph, mode);
  Cloner(graph, &table).arguments(source, target);
  for (size_t i : args) preparer.mark(graph.region(target).args[i]);
  std::vector<ValueId> returned = preparer.region(source, target, table);
  end_region(graph, target, "func.return", std::move(returned));
  return target;
}

}  // namespace cleave

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/cloner.h"
#include "cleave/graph/local_op.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"
#include "cleave/spmd/op_layouts.h"
#include "cleave/spmd/own_values.h"
#include "cleave/spmd/planned_marks.h"
#include "cleave/spmd/program.h"

namespace cleave {
namespace {

class Instantiator {
 public:
  Instantiator(const Program& program, int64_t device, bool with_transfers,
               TransferPlanners* planners)
      : program_(program),
        whole_(program.graph),
        device_(device),
        with_transfers_(with_transfers),
        planners_(planners),
        clone_(whole_, local_, ValueMap(whole_.num_values())) {
    clone_.type = [this](ValueId value) { return local_type(value); };
    clone_.rewrite = [this](NodeId id, RegionId to) {
      const size_t first = local_.num_nodes();
      node(id, to);
      result_.origin.resize(local_.num_nodes());
      for (size_t i = first; i < local_.num_nodes(); ++i)
        if (!result_.origin[i].valid()) result_.origin[i] = id;
      keep_numbers(whole_.node(id).attrs, first);
      return true;
    };
  }

  Instance run() {
    local_.name = whole_.name;
    local_.attrs = whole_.attrs;
    local_.meshes = whole_.meshes;
    for (const Function& function : whole_.functions) {
      clone_.function(function);
      Function& copy = local_.functions.back();
      for (size_t i = 0; i < copy.arg_types.size(); ++i)
        copy.arg_types[i] = local_.type(local_.region(copy.body).args[i]);
      const Node& end = local_.node(local_.terminator(copy.body));
      for (size_t i = 0; i < copy.result_types.size(); ++i)
        copy.result_types[i] = local_.operand_type(end, i);
    }
    result_.graph = std::move(local_);
    result_.entry = program_.entry;
    result_.origin.resize(result_.graph.num_nodes());
    result_.transfers.resize(result_.graph.num_nodes());
    return std::move(result_);
  }

 private:
  ShardSlice box(ValueId value) const {
    const Type& type = whole_.type(value);
    return is_ranked_tensor(type) ? program_.layout(value).box(type.shape, device_) : ShardSlice{};
  }

  // What a node becomes says of which op and change of the plan it is, as the node does.
  void keep_numbers(const AttrDict& attrs, size_t first) {
    for (std::string_view mark : {kOpAttr, kChangeAttr}) {
      const Attribute* attr = attrs.find(mark);
      if (!attr) continue;
      for (size_t i = first; i < local_.num_nodes(); ++i) {
        AttrDict& own = local_.node({static_cast<uint32_t>(i)}).attrs;
        if (!own.has(mark)) own.set(mark, *attr);
      }
    }
  }

  Type local_type(ValueId value) const {
    Type type = whole_.type(value);
    if (is_ranked_tensor(type)) type.shape = box(value).size;
    return type;
  }

  void node(NodeId id, RegionId to) {
    const Node& node = whole_.node(id);
    if (is<op::EnterManual, op::LeaveManual>(node)) {
      clone_.map(node.results[0], clone_.mapped(node.operands[0]));
      return;
    }
    if (is_transfer(node)) return transfer(node, to);
    if (node.def->has(kDataFlow) && !node.regions.empty()) {
      clone_.copy(id, to);
      return;
    }

    LocalOp op(whole_, node, local_, to, clone_.values());
    op.device = device_;
    op.operands = clone_.mapped(node.operands);
    for (ValueId operand : node.operands) op.operand_boxes.push_back(box(operand));
    for (ValueId result : node.results) op.result_boxes.push_back(box(result));
    for (ValueId operand : node.operands)
      op.counts.push_back(counts_operand(program_, node, operand, device_));
    const std::vector<ValueId> results = local_form(op);
    for (size_t i = 0; i < node.results.size(); ++i) {
      clone_.map(node.results[i], results[i]);
      std::string& name = local_.value(results[i]).name;
      if (name.empty()) name = whole_.value(node.results[i]).name;
    }
  }

  std::vector<ValueId> local_form(LocalOp& op) const {
    const Node& node = op.node();
    if (op.is_empty()) {
      std::vector<ValueId> results;
      for (size_t i = 0; i < node.results.size(); ++i)
        results.push_back(op.constant(zero_literal(op.result_type(i))));
      return results;
    }
    if (node.def->localize) return node.def->localize(op);
    return op.emit_self(node.attrs);
  }

  void transfer(const Node& node, RegionId to) {
    const ValueId from = node.operands[0], result = node.results[0];
    const Type& type = whole_.type(from);
    const NodeId id =
        local_.add_node("cleave.transfer", {clone_.mapped(from)}, {local_type(result)}, node.attrs);
    local_.append(to, id);
    result_.transfers.resize(local_.num_nodes());
    if (with_transfers_)
      result_.transfers[id.index] = std::make_shared<Transfer>(plan(result, from, type));
    clone_.map(result, local_.node(id).results[0]);
  }

  Transfer plan(ValueId result, ValueId from, const Type& type) const {
    const Layout &before = program_.layout(from), &after = program_.layout(result);
    if (!planners_) return plan_transfer(before, after, type.shape, type.dtype, device_);
    const auto [it, fresh] =
        planners_->try_emplace(result.index, before, after, type.shape, type.dtype);
    return it->second.plan(device_);
  }

  const Program& program_;
  const Graph& whole_;
  int64_t device_;
  bool with_transfers_;
  TransferPlanners* planners_;
  Graph local_;
  Cloner clone_;
  Instance result_;
};

}  // namespace

const Function& Program::entry_function() const {
  const Function* function = graph.find_function(entry);
  internal_check(function != nullptr, "a program has no entry");
  return *function;
}

bool is_transfer(const Node& node) { return node.attrs.has("cleave.step"); }

ValueId behind_transfers(const Graph& graph, ValueId value) {
  while (true) {
    const NodeId producer = graph.value(value).producer;
    if (!producer.valid() || !is_transfer(graph.node(producer))) return value;
    value = graph.node(producer).operands[0];
  }
}

// An average counts on all devices.
bool counts_operand(const Program& program, const Node& node, ValueId operand, int64_t device) {
  for (ValueId result : node.results) {
    const ShardingSpec& spec = program.layout(result).spec;
    if (!spec.mesh || spec.partial.empty() || spec.partial_op == ReduceOp::Avg) continue;
    const AxisList once = without(spec.partial, program.layout(operand).spec.partial);
    if (coordinate(once, *spec.mesh, spec.mesh->position_of(device)) != 0) return false;
  }
  return true;
}

Graph to_module(const Program& program, int64_t device) {
  Instance instance = instantiate_shapes(program, device);
  Graph& graph = instance.graph;
  for (uint32_t i = 0; i < graph.num_nodes(); ++i) {
    Node& node = graph.node({i});
    if (!is<op::Transfer>(node)) continue;
    const Node& origin = program.graph.node(instance.origin[i]);
    node.def = &op_named("cleave." + std::string(origin.attrs.get_string("cleave.step")));
    AttrDict attrs;
    auto say = [&](const char* name, std::string text) {
      std::erase(text, '"');
      attrs.set(name, string_attr(std::move(text)));
    };
    say("axes", std::string(origin.attrs.get_string("cleave.axes")));
    attrs.set("for", *origin.attrs.find("cleave.for"));
    say("from", to_string(program.layout(origin.operands[0]).spec));
    say("to", to_string(program.layout(origin.results[0]).spec));
    node.attrs = std::move(attrs);
  }
  // Shapes are those of a device now; shardings would speak of whole tensors.
  for (Function& function : graph.functions) {
    for (AttrDict& attrs : function.arg_attrs) attrs.erase("sdy.sharding");
    for (AttrDict& attrs : function.result_attrs) attrs.erase("sdy.sharding");
  }
  return std::move(instance.graph);
}

Instance instantiate(const Program& program, int64_t device, TransferPlanners* planners) {
  return Instantiator(program, device, true, planners).run();
}

Instance instantiate_shapes(const Program& program, int64_t device) {
  return Instantiator(program, device, false, nullptr).run();
}

}  // namespace cleave

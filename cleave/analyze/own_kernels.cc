#include "cleave/analyze/own_kernels.h"

#include <algorithm>
#include <memory>
#include <set>

#include "cleave/compile/epilogue.h"
#include "cleave/compile/fuse.h"
#include "cleave/compile/recompute.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"

namespace cleave::analyze {
namespace {

constexpr std::string_view kNumberAttr = "cleave.number";  // of the node that a copy stands for

class OwnKernels {
 public:
  OwnKernels(Graph graph, std::vector<KernelUse>& uses) : graph_(std::move(graph)), uses_(uses) {
    for (uint32_t i = 0; i < graph_.num_nodes(); ++i) {
      const Node& node = graph_.node({i});
      uses_[i].reads.assign(node.operands.size(), 0.0);
      uses_[i].writes.assign(node.results.size(), 0.0);
      uses_[i].spills.assign(node.results.size(), 0.0);
    }
  }

  void run(std::string_view entry) {
    graph_.walk([&](NodeId id) {
      graph_.node(id).attrs.set(kNumberAttr, int_attr(static_cast<int64_t>(id.index)));
    });
    fuse_epilogues(graph_);
    fuse(graph_);
    recompute(graph_);
    users_ = std::make_unique<UseMap>(graph_);
    region(graph_.find_function(entry)->body);
  }

 private:
  const Node& node(NodeId id) const { return graph_.node(id); }
  KernelUse* use_of(const Node& node) const {
    const int64_t number = node.attrs.get_int(kNumberAttr, -1);
    return number < 0 ? nullptr : &uses_[static_cast<size_t>(number)];
  }

  void region(RegionId id) {
    for (NodeId each : graph_.region(id).nodes) {
      const Node& unit = node(each);
      if (is<op::Fusion>(unit))
        fusion(unit);
      else
        alone(unit);
      if (flow_of(unit) != Flow::None)
        for (RegionId inner : unit.regions) region(inner);
    }
  }

  void fusion(const Node& fusion) {
    const Region& body = graph_.region(fusion.regions[0]);
    std::set<uint32_t> entering;
    for (ValueId arg : body.args) entering.insert(arg.index);
    const Node* product = product_of_fusion(graph_, fusion);
    KernelUse* last = nullptr;
    for (NodeId id : body.nodes) {
      const Node& member = node(id);
      KernelUse* use = use_of(member);
      if (!use || member.def->has(kTerminator) || member.def->has(kConstantLike)) continue;
      last = use;
      if (&member == product) {
        take_alone(member, *use);
        for (ValueId operand : member.operands) entering.erase(operand.index);
        continue;
      }
      if (computes(member)) use->works += 1;
      for (size_t i = 0; i < member.operands.size(); ++i)
        if (entering.erase(member.operands[i].index) > 0) use->reads[i] += 1;
      for (double& spill : use->spills) spill = 2 * bytes(member.results[0]);
    }
    for (ValueId result : node(body.nodes.back()).operands)
      if (const NodeId producer = graph_.value(result).producer; producer.valid())
        if (KernelUse* use = use_of(node(producer))) {
          use->writes[0] = 1;
          use->spills[0] = 0;
        }
    if (last && !product) last->launches += 1;
  }

  void alone(const Node& unit) {
    KernelUse* use = use_of(unit);
    if (!use || unit.def->has(kTerminator) || unit.def->has(kConstantLike)) return;
    if (flow_of(unit) == Flow::Barrier || unit.def->has(kSameValue)) return;
    if (unit.def->has(kViewLike)) {
      if (is_put_in_order(unit)) use->is_library = true;
      return;
    }
    for (double& writes : use->writes) writes = 1;
    if (flow_of(unit) != Flow::None) return;
    if (is<op::Reduce>(unit)) {  // a loop by itself
      use->works = use->launches = use->reads[0] = 1;
      return;
    }
    take_alone(unit, *use);
  }

  // The price of a product by itself is that on operands which are in the cache. The gaps of a
  // dilated input are filled with zeros, in a copy that is read again.
  void take_alone(const Node& unit, KernelUse& use) const {
    use.is_library = true;
    if (is_product(unit)) use.reads.assign(unit.operands.size(), 1.0);
    if (!is<op::Convolution>(unit)) return;
    for (int64_t d : unit.attrs.get_ints_or_empty("lhs_dilation"))
      use.gaps *= static_cast<double>(d);
    if (use.gaps > 1) use.reads[0] += 2 * use.gaps;
  }

  // Whether a member of a fusion is a loop of it: one value everywhere is no array.
  bool computes(const Node& member) const {
    if (is<op::Reshape>(member)) return false;
    return !member.def->has(kRepeats) || num_elements(graph_.operand_type(member, 0).shape) > 1;
  }

  // A view whose elements some reader needs one after the other; products take them as they lie.
  bool is_put_in_order(const Node& view) const {
    if (!is<op::Transpose>(view)) return false;
    for (const Use& use : users_->uses(view.results[0])) {
      const Node& reader = node(use.node);
      if (is_product(reader) || product_of_fusion(graph_, reader)) continue;
      if (reader.def->has(kViewLike) && is_read_by_products(reader)) continue;
      return true;
    }
    return false;
  }

  bool is_read_by_products(const Node& view) const {
    const auto uses = users_->uses(view.results[0]);
    return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
      return is_product(node(use.node)) || product_of_fusion(graph_, node(use.node));
    });
  }

  double bytes(ValueId value) const {
    const Type& type = graph_.type(value);
    return type.is_tensor() && type.has_static_shape() ? static_cast<double>(type.byte_count()) : 0;
  }

  Graph graph_;
  std::vector<KernelUse>& uses_;
  std::unique_ptr<UseMap> users_;
};

}  // namespace

void mark_own_kernels(const Graph& graph, std::string_view entry, std::vector<KernelUse>& uses) {
  OwnKernels(graph, uses).run(entry);
}

}  // namespace cleave::analyze

#include "cleave/spmd/single_program.h"

#include <algorithm>
#include <optional>

#include "cleave/core/error.h"
#include "cleave/graph/cloner.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/local_op.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/graph/verify.h"
#include "cleave/ops/op.h"
#include "cleave/spmd/collective_writer.h"
#include "cleave/spmd/local_forms.h"
#include "cleave/spmd/op_layouts.h"

namespace cleave {
namespace {

// Where the elements of a value are on all devices, and how large its array is.
struct Place {
  Shape padded;
  bool is_even = true;            // all devices hold as much
  std::vector<ShardSlice> boxes;  // by device
};

int64_t next_channel(const Graph& graph) {
  int64_t last = 0;
  graph.walk([&](NodeId id) {
    const Attribute* attribute = graph.node(id).attrs.find("channel_handle");
    const auto* handle = attribute ? attribute->as<StructAttr>() : nullptr;
    if (handle) last = std::max(last, handle->get_int("handle", 0));
  });
  return last + 1;
}

class SingleProgramWriter {
 public:
  explicit SingleProgramWriter(const Program& program)
      : program_(program),
        whole_(program.graph),
        devices_(program.mesh->num_devices()),
        own_(out_, devices_),
        collectives_(own_, next_channel(whole_)),
        places_(whole_.num_values()),
        clone_(whole_, out_, ValueMap(whole_.num_values())) {
    clone_.type = [this](ValueId value) { return local_type(value); };
    clone_.rewrite = [this](NodeId id, RegionId to) { return node(id, to); };
  }

  SingleProgram run() {
    out_.name = whole_.name;
    out_.attrs = whole_.attrs;
    for (const Function& function : whole_.functions) copy_function(function);
    SingleProgram result;
    result.entry = program_.entry;
    result.mesh = program_.mesh;
    const Function& entry = program_.entry_function();
    for (ValueId arg : whole_.region(entry.body).args)
      result.arguments.push_back({whole_.type(arg), program_.layout(arg)});
    for (ValueId value : whole_.node(whole_.terminator(entry.body)).operands)
      result.results.push_back({whole_.type(value), program_.layout(value)});
    result.graph = std::move(out_);
    return result;
  }

 private:
  void copy_function(const Function& function) {
    clone_.function(function);
    Function& copy = out_.functions.back();
    if (!copy.body.valid()) return;
    for (size_t i = 0; i < copy.arg_types.size(); ++i)
      copy.arg_types[i] = out_.type(out_.region(copy.body).args[i]);
    const Node& end = out_.node(out_.terminator(copy.body));
    for (size_t i = 0; i < copy.result_types.size(); ++i)
      copy.result_types[i] = out_.operand_type(end, i);
    // Shapes are those of a device now; shardings would speak of whole tensors.
    for (AttrDict& attrs : copy.arg_attrs) attrs.erase("sdy.sharding");
    for (AttrDict& attrs : copy.result_attrs) attrs.erase("sdy.sharding");
  }

  const Place& place(ValueId value) {
    std::optional<Place>& place = places_[value.index];
    if (place) return *place;
    place.emplace();
    const Type& type = whole_.type(value);
    if (!is_ranked_tensor(type)) {
      place->boxes.resize(static_cast<size_t>(devices_));
      return *place;
    }
    const Layout& layout = program_.layout(value);
    place->padded = padded_shape(layout, type.shape, devices_);
    for (int64_t device = 0; device < devices_; ++device) {
      place->boxes.push_back(layout.box(type.shape, device));
      place->is_even &= place->boxes.back().size == place->padded;
    }
    return *place;
  }

  Type local_type(ValueId value) {
    Type type = whole_.type(value);
    if (is_ranked_tensor(type)) type.shape = place(value).padded;
    return type;
  }

  bool is_even(const Node& node) {
    auto even = [&](ValueId value) { return place(value).is_even; };
    return std::ranges::all_of(node.operands, even) && std::ranges::all_of(node.results, even);
  }

  bool node(NodeId id, RegionId to) {
    const Node& node = whole_.node(id);
    own_.in(to);
    if (is<op::EnterManual, op::LeaveManual>(node)) {
      clone_.map(node.results[0],
                 own_.fit(clone_.mapped(node.operands[0]), place(node.results[0]).padded));
      return true;
    }
    if (is_transfer(node)) {
      clone_.map(
          node.results[0],
          collectives_.write(node.attrs.get_string("cleave.step"),
                             program_.layout(node.operands[0]), program_.layout(node.results[0]),
                             whole_.type(node.operands[0]), clone_.mapped(node.operands[0])));
      return true;
    }
    // Values pass through as they are, whatever their sizes.
    if (node.def->has(kDataFlow) || node.def->has(kCall) || node.def->has(kTerminator))
      return false;
    if (!node.def->localize && is_even(node)) {
      LocalOp op(whole_, node, out_, to, clone_.values());
      op.operands = clone_.mapped(node.operands);
      set_boxes(op, 0, true);
      map_results(node, op.emit_self(node.attrs));
      return true;
    }
    map_results(node, plain(node));
    return true;
  }

  void map_results(const Node& node, const std::vector<ValueId>& results) {
    for (size_t i = 0; i < node.results.size(); ++i) {
      clone_.map(node.results[i], results[i]);
      std::string& name = out_.value(results[i]).name;
      if (name.empty()) name = whole_.value(node.results[i]).name;
    }
  }

  // `padded`: as if every device held as much as the first ones.
  void set_boxes(LocalOp& op, int64_t device, bool padded) {
    auto box = [&](ValueId value) {
      return padded ? padded_box(value, device) : place(value).boxes[static_cast<size_t>(device)];
    };
    const Node& node = op.node();
    op.device = device;
    op.alike = true;
    for (ValueId operand : node.operands) op.operand_boxes.push_back(box(operand));
    for (ValueId result : node.results) op.result_boxes.push_back(box(result));
    for (ValueId operand : node.operands) {
      op.counts.push_back(counts_operand(program_, node, operand, device));
      op.counted_by_all.push_back(counted_by_all(node, operand));
    }
  }

  bool counted_by_all(const Node& node, ValueId operand) const {
    if (std::ranges::none_of(node.results, [&](ValueId result) {
          return program_.layout(result).spec.is_partial();
        }))
      return true;
    for (int64_t device = 0; device < devices_; ++device)
      if (!counts_operand(program_, node, operand, device)) return false;
    return true;
  }

  // An op with a local form of its own, or with uneven operands or results.
  std::vector<ValueId> plain(const Node& node) {
    std::vector<ValueId> inputs = clone_.mapped(node.operands);
    if (!is_even(node)) {
      std::vector<std::optional<ReduceOp>> fills;
      if (padding_stays_outside(node, fills)) {
        const auto results = write_padded(node, inputs, fills);
        if (results) return *results;
      }
    }
    for (ValueId captured : captured_values(whole_, node.regions))
      inputs.push_back(clone_.mapped(captured));
    return write_forms(node, make_forms(node, false), inputs);
  }

  // Whether the op may run on whole arrays, padding included, because elements of the padding reach
  // no others: along every uneven dimension it computes element by element, or reduces in a way
  // whose identity can stand in for them (`fills`, by operand).
  bool padding_stays_outside(const Node& node, std::vector<std::optional<ReduceOp>>& fills) {
    fills.resize(node.operands.size());
    if (node.attrs.has("cleave.parts")) return false;
    if (node.def->has(kConstantLike)) return !lists_elements(node);
    const OpRule rules = op_rule(whole_, node);
    const OpShardingRule* rule = rules.to_run(node);
    if (!rule) return false;
    std::vector<bool> uneven(rule->factors.size());
    for (size_t t = 0; t < rule->num_tensors(); ++t) {
      const Place& at = place(tensor(node, t));
      const Shape& shape = whole_.type(tensor(node, t)).shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        if (is_even(at, d)) continue;
        const DimFactors& factors = rule->tensor(t)[d];
        // To a local form, a dimension of one element looks whole where it is only padding.
        if (factors.size() != 1 || (node.def->localize && at.padded[d] >= shape[d])) return false;
        const Factor& factor = rule->factors[static_cast<size_t>(factors[0])];
        uneven[static_cast<size_t>(factors[0])] = true;
        if (factor.kind == FactorKind::PassThrough) continue;
        if (factor.kind != FactorKind::Reduction || factor.unknown_reduce ||
            t >= node.operands.size() || node.def->needs || factor.reduce == ReduceOp::Avg ||
            (fills[t] && *fills[t] != factor.reduce))
          return false;
        fills[t] = factor.reduce;
      }
    }
    for (size_t f = 0; f < uneven.size(); ++f)
      if (uneven[f] && !lies_alike(node, *rule, static_cast<FactorIndex>(f))) return false;
    return !node.def->needs || needs_its_own(node);
  }

  // Whether devices need just what they hold along uneven dimensions, if padding counts as held.
  bool needs_its_own(const Node& node) {
    for (int64_t device = 0; device < devices_; ++device) {
      std::vector<ShardSlice> results, held;
      for (ValueId result : node.results) results.push_back(padded_box(result, device));
      for (ValueId operand : node.operands) held.push_back(padded_box(operand, device));
      std::vector<ShardSlice> needed = held;
      node.def->needs(whole_, node, results, needed);
      for (size_t i = 0; i < held.size(); ++i)
        for (size_t d = 0; d < held[i].size.size(); ++d)
          if (!is_even(place(node.operands[i]), d) &&
              (needed[i].offset[d] != held[i].offset[d] || needed[i].size[d] != held[i].size[d]))
            return false;
    }
    return true;
  }

  ShardSlice padded_box(ValueId value, int64_t device) {
    const Place& at = place(value);
    return {at.boxes[static_cast<size_t>(device)].offset, at.padded};
  }

  // A constant that has elements for its true places alone.
  static bool lists_elements(const Node& node) {
    const Attribute* value = node.attrs.find("value");
    const auto* elements = value ? value->as<ElementsAttr>() : nullptr;
    return elements && !elements->literal.splat;
  }

  static ValueId tensor(const Node& node, size_t t) {
    return t < node.operands.size() ? node.operands[t] : node.results[t - node.operands.size()];
  }

  static bool is_even(const Place& at, size_t d) {
    return std::ranges::all_of(at.boxes,
                               [&](const ShardSlice& box) { return box.size[d] == at.padded[d]; });
  }

  // Whether every device holds the same range along a factor in all tensors that have it. A pad
  // that moves elements passes them through, but to other places.
  bool lies_alike(const Node& node, const OpShardingRule& rule, FactorIndex factor) {
    const std::vector<ShardSlice>* first = nullptr;
    size_t along = 0;
    for (size_t t = 0; t < rule.num_tensors(); ++t)
      for (size_t d = 0; d < rule.tensor(t).size(); ++d) {
        const DimFactors& factors = rule.tensor(t)[d];
        if (std::ranges::find(factors, factor) == factors.end()) continue;
        const std::vector<ShardSlice>& boxes = place(tensor(node, t)).boxes;
        if (!first) {
          first = &boxes;
          along = d;
        }
        for (size_t i = 0; i < boxes.size(); ++i)
          if (boxes[i].offset[d] != (*first)[i].offset[along] ||
              boxes[i].size[d] != (*first)[i].size[along])
            return false;
      }
    return true;
  }

  std::optional<std::vector<ValueId>> write_padded(
      const Node& node, std::vector<ValueId> inputs,
      const std::vector<std::optional<ReduceOp>>& fills) {
    const std::vector<LocalForm> forms = make_forms(node, true);
    for (const LocalForm& form : forms)
      if (!are_alike(form, forms[0])) return std::nullopt;
    try {
      check_types(forms[0].graph, forms[0].body);
    } catch (const UserError&) {  // the op makes something else of these sizes
      return std::nullopt;
    }
    for (size_t i = 0; i < fills.size(); ++i)
      if (fills[i]) inputs[i] = filled(node.operands[i], inputs[i], *fills[i]);
    for (ValueId captured : captured_values(whole_, node.regions))
      inputs.push_back(clone_.mapped(captured));
    return write_forms(node, forms, inputs);
  }

  ValueId filled(ValueId whole, ValueId value, ReduceOp op) {
    const Place& at = place(whole);
    std::vector<ByDevice> sizes(at.padded.size());
    for (const ShardSlice& box : at.boxes)
      for (size_t d = 0; d < sizes.size(); ++d) sizes[d].push_back(box.size[d]);
    return own_.within(value, sizes, identity_literal(op, out_.type(value)));
  }

  static void check_types(const Graph& graph, RegionId body) {
    for (NodeId id : graph.region(body).nodes) {
      const Node& node = graph.node(id);
      if (!node.def->infer) continue;
      const std::vector<Type> types = node.def->infer(graph, node);
      for (size_t i = 0; i < types.size() && i < node.results.size(); ++i)
        if (!compatible_types(types[i], graph.result_type(node, i)))
          throw_user("{} gives {}", node.name(), to_string(types[i]));
    }
  }

  // What each device makes of the op; one form if they all make the same.
  std::vector<LocalForm> make_forms(const Node& node, bool padded) {
    std::vector<LocalForm> forms;
    const int64_t count = padded && !node.def->localize ? 1 : devices_;
    for (int64_t device = 0; device < count; ++device) forms.push_back(form(node, device, padded));
    return forms;
  }

  LocalForm form(const Node& node, int64_t device, bool padded) {
    LocalForm form;
    form.body = form.graph.add_region();
    ValueMap values = ValueMap::sparse();
    LocalOp op(whole_, node, form.graph, form.body, values);
    set_boxes(op, device, padded);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      Type type = whole_.operand_type(node, i);
      if (is_ranked_tensor(type)) type.shape = op.operand_boxes[i].size;
      op.operands.push_back(form.graph.add_argument(form.body, std::move(type)));
    }
    for (ValueId captured : captured_values(whole_, node.regions))
      values.set(captured, form.graph.add_argument(form.body, local_type(captured)));
    if (op.is_empty()) {
      for (size_t i = 0; i < node.results.size(); ++i)
        form.results.push_back(op.constant(zero_literal(op.result_type(i))));
    } else {
      form.results = node.def->localize ? node.def->localize(op) : op.emit_self(node.attrs);
    }
    return form;
  }

  // Writes forms of all devices (or the one that is for all): as they stand if they are alike, else
  // as branches.
  std::vector<ValueId> write_forms(const Node& node, const std::vector<LocalForm>& forms,
                                   std::span<const ValueId> inputs) {
    std::vector<FormGroup> groups;
    ByDevice group_of;
    for (int64_t device = 0; device < devices_; ++device) {
      const LocalForm& form = forms[forms.size() == 1 ? 0 : static_cast<size_t>(device)];
      auto group = std::ranges::find_if(
          groups, [&](const FormGroup& g) { return are_alike(*g.forms[0], form); });
      if (group == groups.end()) {
        groups.push_back({{}, std::vector<int64_t>(static_cast<size_t>(devices_))});
        group = groups.end() - 1;
      }
      group_of.push_back(group - groups.begin());
      group->form_of[static_cast<size_t>(device)] = static_cast<int64_t>(group->forms.size());
      group->forms.push_back(&form);
    }
    if (groups.size() == 1) return write_group(groups[0], inputs, own_);
    return write_branches(node, groups, group_of, inputs);
  }

  std::vector<ValueId> write_branches(const Node& node, const std::vector<FormGroup>& groups,
                                      const ByDevice& group_of, std::span<const ValueId> inputs) {
    const RegionId around = own_.region();
    std::vector<Type> types;
    for (ValueId result : node.results) types.push_back(local_type(result));
    const NodeId choice = out_.add_node(op::Case::kName, {own_.number(group_of)}, types);
    out_.node(choice).location = node.location;
    for (const FormGroup& group : groups) {
      const RegionId branch = out_.add_region(choice);
      own_.in(branch);
      const LocalForm& form = *group.forms[0];
      std::vector<ValueId> cut;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const Type& type = form.graph.type(form.graph.region(form.body).args[i]);
        cut.push_back(is_ranked_tensor(type) ? own_.fit(inputs[i], type.shape) : inputs[i]);
      }
      std::vector<ValueId> results = write_group(group, cut, own_);
      for (size_t i = 0; i < results.size(); ++i)
        if (is_ranked_tensor(types[i])) results[i] = own_.fit(results[i], types[i].shape);
      own_.builder().finish(results);
    }
    out_.append(around, choice);
    own_.in(around);
    return out_.node(choice).results;
  }

  const Program& program_;
  const Graph& whole_;
  int64_t devices_;
  Graph out_;
  OwnValues own_;
  CollectiveWriter collectives_;
  std::vector<std::optional<Place>> places_;  // by value
  Cloner clone_;
};

}  // namespace

const Function& SingleProgram::entry_function() const {
  const Function* function = graph.find_function(entry);
  internal_check(function != nullptr, "a program has no entry");
  return *function;
}

SingleProgram single_program(const Program& program) { return SingleProgramWriter(program).run(); }

}  // namespace cleave

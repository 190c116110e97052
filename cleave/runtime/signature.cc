#include "cleave/runtime/signature.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <unordered_map>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/registered_op.h"
#include "cleave/graph/verify.h"
#include "cleave/graph/verify_tables.h"
#include "cleave/spmd/partition.h"

namespace cleave {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdULL;
}

template <typename T>
uint64_t mix(uint64_t hash, const T* pointer) {
  return mix(hash, reinterpret_cast<uintptr_t>(pointer));
}

uint64_t mix_text(uint64_t hash, std::string_view text) {
  return mix(hash, std::hash<std::string_view>()(text));
}

uint64_t hash_of(const Aval& aval) {
  uint64_t hash = mix(0, static_cast<uint64_t>(aval.type.dtype));
  for (int64_t size : aval.type.shape) hash = mix(hash, static_cast<uint64_t>(size));
  auto mix_axes = [&](const AxisList& axes) {
    hash = mix(hash, axes.size());
    for (const AxisRef& ref : axes)
      hash = mix(hash, static_cast<uint64_t>(ref.axis * 64 + ref.size));
  };
  for (const DimSpec& dim : aval.spec.dims) {
    mix_axes(dim.axes);
    if (dim.priority) hash = mix(hash, static_cast<uint64_t>(*dim.priority));
  }
  mix_axes(aval.spec.partial);
  mix_axes(aval.spec.replicated);
  return hash;
}

const Aval& aval_of(const Tensor& tensor) { return tensor.record()->aval(tensor.index()); }
const AvalPtr& aval_ptr(const Tensor& tensor) {
  return tensor.record()->signature->results[tensor.index()];
}

// Tables that grow without end are a leak; a program that has seen this many distinct ops can
// afford to see them again.
constexpr size_t kMaxEntries = 1 << 14;

using Table = std::unordered_multimap<uint64_t, SignaturePtr>;

// What rules said is forgotten when others are registered.
Table& table() {
  thread_local Table signatures;
  thread_local uint64_t version = 0;
  if (version != registered_version()) signatures.clear();
  version = registered_version();
  return signatures;
}

void add_entry(uint64_t hash, const SignaturePtr& signature) {
  if (table().size() >= kMaxEntries) table().clear();
  table().emplace(hash, signature);
}

bool same_operands(const Signature& signature, std::span<const Tensor> operands) {
  if (signature.operands.size() != operands.size()) return false;
  for (size_t i = 0; i < operands.size(); ++i)
    if (signature.operands[i] != aval_ptr(operands[i])) return false;
  return true;
}

std::string op_name(const Graph& graph) {
  const Region& body = graph.region(graph.functions[0].body);
  return body.nodes.empty() ? std::string("op") : graph.node(body.nodes.front()).name();
}

// The op that makes the results, the last one of a composition.
std::string last_op(const Graph& graph) {
  std::string name = "an op";
  for (NodeId id : graph.region(graph.functions[0].body).nodes)
    if (const Node& node = graph.node(id); !node.def->has(kTerminator)) name = node.name();
  return name;
}

void check_operands(std::span<const Tensor> operands,
                    const std::function<std::string(const std::vector<Type>&)>& name_of) {
  const auto empty =
      std::ranges::find_if(operands, [](const Tensor& operand) { return !operand.valid(); });
  if (empty == operands.end()) return;
  // The op is named as it would be on operands like the others.
  const auto there =
      std::ranges::find_if(operands, [](const Tensor& operand) { return operand.valid(); });
  const Type like = there == operands.end() ? Type::tensor(DType::F32, {2, 2}) : there->type();
  std::vector<Type> types;
  for (const Tensor& operand : operands) types.push_back(operand.valid() ? operand.type() : like);
  std::string name = "an op";
  try {
    name = name_of(types);
  } catch (const UserError&) {
    // These types are not for it.
  }
  throw_user("{}: operand {} is an empty Tensor: assign it a value first", name,
             empty - operands.begin());
}

// The mesh of the operands and of the shardings that the form itself names.
MeshPtr common_mesh(const Graph& graph, std::span<const AvalPtr> operands) {
  MeshPtr found;
  auto consider = [&](const MeshPtr& mesh) {
    if (!mesh || mesh->axes.empty()) return;
    if (!found) found = mesh;
    if (found != mesh && !found->same_devices(*mesh))
      throw_user(
          "{}: tensors on two meshes, {} and {}; bring one over with Tensor::from(x.to_host()) and "
          "`shard`",
          op_name(graph), to_string(*found), to_string(*mesh));
  };
  for (const AvalPtr& operand : operands) consider(operand->spec.mesh);
  graph.walk([&](NodeId id) {
    for (const NamedAttribute& attr : graph.node(id).attrs.entries()) {
      if (const auto* one = attr.value.as<ShardingAttr>()) consider(one->spec.mesh);
      if (const auto* many = attr.value.as<ShardingsAttr>())
        for (const ShardingSpec& spec : many->specs) consider(spec.mesh);
    }
  });
  return found;
}

bool is_constant_form(const Graph& graph) {
  bool constant = true;
  graph.walk([&](NodeId id) {
    const OpDef* def = graph.node(id).def;
    constant &= (def->has(kTerminator) || def->has(kConstantLike) || def->has(kViewLike) ||
                 def->has(kElementwise));
  });
  return constant;
}

// Infers layouts by partitioning the function alone.
SignaturePtr complete(std::shared_ptr<Signature> signature, Graph graph) {
  const Function& main = graph.functions[0];
  signature->mesh = common_mesh(graph, signature->operands);
  const std::vector<Type> types = main.result_types;
  if (!signature->mesh) {
    for (const Type& type : types) signature->results.push_back(shared_aval(type, {}));
    signature->constant = is_constant_form(graph);
  } else {
    Graph annotated = graph;
    annotated.meshes = {signature->mesh};
    for (size_t i = 0; i < signature->operands.size(); ++i)
      annotate_argument(annotated.functions[0], i, signature->operands[i]->spec);
    const Program program = partition(
        annotated,
        {.entry = main.name, .mesh = signature->mesh, .keep_results = true, .verified = true});
    for (size_t i = 0; i < types.size(); ++i)
      signature->results.push_back(shared_aval(types[i], result_spec(program, i)));
  }
  signature->graph = std::make_shared<const Graph>(std::move(graph));
  return signature;
}

std::shared_ptr<Signature> begin_signature(std::span<const Tensor> operands) {
  auto signature = std::make_shared<Signature>();
  for (const Tensor& operand : operands) signature->operands.push_back(aval_ptr(operand));
  return signature;
}

// Whether two modules are the same node for node, with the functions that are called and what is
// said about arguments and results.
class Comparison {
 public:
  Comparison(const Graph& a, const Graph& b) : a_(a), b_(b), map_(a.num_values()) {}

  bool modules() {
    if (a_.functions.size() != b_.functions.size()) return false;
    for (size_t i = 0; i < a_.functions.size(); ++i)
      if (!functions(a_.functions[i], b_.functions[i])) return false;
    return true;
  }

 private:
  bool functions(const Function& x, const Function& y) {
    if (x.name != y.name || x.arg_types != y.arg_types || x.result_types != y.result_types ||
        !same(x.arg_attrs, y.arg_attrs) || !same(x.result_attrs, y.result_attrs) ||
        x.body.valid() != y.body.valid())
      return false;
    return !x.body.valid() || regions(x.body, y.body);
  }

  // Lists may end early.
  static bool same(const std::vector<AttrDict>& x, const std::vector<AttrDict>& y) {
    static const AttrDict none;
    for (size_t i = 0; i < std::max(x.size(), y.size()); ++i)
      if (!((i < x.size() ? x[i] : none) == (i < y.size() ? y[i] : none))) return false;
    return true;
  }

  bool regions(RegionId x, RegionId y) {
    const Region &p = a_.region(x), &q = b_.region(y);
    if (p.args.size() != q.args.size() || p.nodes.size() != q.nodes.size()) return false;
    if (!define(p.args, q.args)) return false;
    for (size_t i = 0; i < p.nodes.size(); ++i)
      if (!nodes(a_.node(p.nodes[i]), b_.node(q.nodes[i]))) return false;
    return true;
  }

  bool define(const std::vector<ValueId>& x, const std::vector<ValueId>& y) {
    for (size_t i = 0; i < x.size(); ++i) {
      if (!(a_.type(x[i]) == b_.type(y[i]))) return false;
      map_.set(x[i], y[i]);
    }
    return true;
  }

  bool nodes(const Node& p, const Node& q) {
    if (p.def != q.def || p.operands.size() != q.operands.size() ||
        p.results.size() != q.results.size() || p.regions.size() != q.regions.size())
      return false;
    for (size_t i = 0; i < p.operands.size(); ++i)
      if (map_[p.operands[i]] != q.operands[i]) return false;
    if (!(p.attrs == q.attrs) || !define(p.results, q.results)) return false;
    for (size_t i = 0; i < p.regions.size(); ++i)
      if (!regions(p.regions[i], q.regions[i])) return false;
    return true;
  }

  const Graph& a_;
  const Graph& b_;
  ValueMap map_;
};

}  // namespace

namespace {

// Every Tensor gets its type here.
void check_sizes(const Type& type) {
  if (!type.is_tensor() || type.unranked) return;
  for (int64_t size : type.shape)
    if (size < 0 && size != kDynamicSize)
      throw_user("{}: a tensor of a negative size", to_string(type));
  if (type.has_static_shape()) num_elements(type.shape);  // throws where they are too many
}

}  // namespace

AvalPtr shared_aval(Type type, ShardingSpec spec) {
  static std::mutex mutex;
  static std::unordered_multimap<uint64_t, AvalPtr>& known =
      *new std::unordered_multimap<uint64_t, AvalPtr>;
  for (DimSpec& dim : spec.dims) {
    dim.open = false;
    if (dim.axes.empty()) dim.priority.reset();
  }
  if (!spec.mesh) spec = {};
  if (spec.partial.empty()) spec.partial_op = ReduceOp::Sum;
  if (spec.mesh) spec.mesh = shared_mesh(*spec.mesh);
  Aval aval{std::move(type), std::move(spec)};
  const uint64_t hash = hash_of(aval);
  std::lock_guard lock(mutex);
  auto [begin, end] = known.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (it->second->type == aval.type && it->second->spec == aval.spec) return it->second;
  if (known.size() >= kMaxEntries)
    std::erase_if(known, [](const auto& entry) { return entry.second.use_count() == 1; });
  check_sizes(aval.type);
  return known.emplace(hash, std::make_shared<const Aval>(std::move(aval)))->second;
}

ShardingSpec result_spec(const Program& program, size_t i) {
  const Function& entry = program.entry_function();
  const Attribute* attr =
      i < entry.result_attrs.size() ? entry.result_attrs[i].find("sdy.sharding") : nullptr;
  const auto* sharding = attr ? attr->as<ShardingAttr>() : nullptr;
  return sharding ? sharding->spec : ShardingSpec{};
}

void annotate_argument(Function& function, size_t i, const ShardingSpec& spec) {
  function.arg_attrs.resize(function.arg_types.size());
  if (spec.mesh) function.arg_attrs[i].set("sdy.sharding", ShardingAttr{spec});
}

SignaturePtr find_signature(FormFn form, std::span<const int64_t> params,
                            std::span<const Tensor> operands) {
  check_operands(operands, [&](const std::vector<Type>& types) {
    Graph graph;
    GraphBuilder builder = GraphBuilder::function(graph, "main", types);
    form(builder, params);
    return last_op(graph);
  });
  uint64_t hash = mix(0, reinterpret_cast<uintptr_t>(form));
  for (int64_t param : params) hash = mix(hash, static_cast<uint64_t>(param));
  for (const Tensor& operand : operands) hash = mix(hash, &aval_of(operand));
  auto [begin, end] = table().equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Signature& known = *it->second;
    if (known.form == form &&
        std::equal(known.params.begin(), known.params.end(), params.begin(), params.end()) &&
        same_operands(known, operands))
      return it->second;
  }

  auto signature = begin_signature(operands);
  signature->form = form;
  signature->params.assign(params.begin(), params.end());
  std::vector<Type> types;
  for (const Tensor& operand : operands) types.push_back(operand.type());
  Graph graph;
  GraphBuilder builder = GraphBuilder::function(graph, "main", std::move(types));
  builder.finish(form(builder, params));
  SignaturePtr made = complete(std::move(signature), std::move(graph));
  add_entry(hash, made);
  return made;
}

uint64_t structure_hash(const Graph& graph) {
  uint64_t hash = 0;
  graph.walk(graph.functions[0].body, [&](NodeId id) {
    hash = mix_text(hash, graph.node(id).name());
    hash = mix(hash, graph.node(id).attrs.size());
  });
  return hash;
}

bool same_structure(const Graph& a, const Graph& b) { return Comparison(a, b).modules(); }

SignaturePtr find_signature(Graph graph, std::span<const Tensor> operands) {
  verify_tables(graph);  // anybody may have built it
  if (graph.functions.empty()) throw_user("a graph without a function is recorded");
  check_operands(operands, [&](const std::vector<Type>&) { return last_op(graph); });
  uint64_t hash = structure_hash(graph);
  for (const Tensor& operand : operands) hash = mix(hash, &aval_of(operand));
  auto [begin, end] = table().equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Signature& known = *it->second;
    if (!known.form && same_operands(known, operands) && same_structure(graph, *known.graph))
      return it->second;
  }
  for (Function& function : graph.functions) {  // lists may end early
    function.arg_attrs.resize(std::max(function.arg_attrs.size(), function.arg_types.size()));
    function.result_attrs.resize(
        std::max(function.result_attrs.size(), function.result_types.size()));
  }
  verify_graph(graph, {.shardings = false});
  SignaturePtr made = complete(begin_signature(operands), std::move(graph));
  add_entry(hash, made);
  return made;
}

}  // namespace cleave

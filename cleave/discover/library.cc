#include "cleave/discover/library.h"

#include <map>
#include <mutex>

#include "cleave/discover/numbers.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"
#include "cleave/rewrite/simplify.h"
#include "cleave/runtime/interpreter.h"

namespace cleave {
namespace {

// Iotas as constants, so that what is computed from them alone is computed once.
void make_positions_constant(Graph& graph) {
  const std::vector<NodeId> nodes = graph.region(graph.find_function("main")->body).nodes;
  for (NodeId id : nodes) {
    Node& node = graph.node(id);
    if (!is<op::Iota>(node)) continue;
    const Type type = graph.result_type(node);
    const int64_t dim = node.attrs.get_int("iota_dimension");
    int64_t inner = 1;
    for (size_t d = static_cast<size_t>(dim) + 1; d < type.shape.size(); ++d)
      inner *= type.shape[d];
    std::vector<double> numbers(static_cast<size_t>(num_elements(type.shape)));
    if (is_complex(type.dtype) || numbers.size() > 4096) continue;
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<double>(static_cast<int64_t>(i) / inner % type.shape[dim]);
    const Array array = from_doubles(type.dtype, type.shape, numbers);
    Literal literal{type, false, nullptr, {}, 0};
    literal.bytes = std::make_shared<const std::vector<std::byte>>(array.raw(),
                                                                   array.raw() + array.num_bytes());
    node.def = &def_of<op::Constant>();
    node.attrs = AttrDict();
    node.attrs.set("value", ElementsAttr{std::move(literal)});
  }
}

// Graphs by shapes and attributes, built at first use; safe to share between threads.
class GraphCache {
 public:
  explicit GraphCache(CallFn make) : make_(std::move(make)) {}

  struct Entry {
    Graph graph;
    std::shared_ptr<const Schedule> schedule;
  };

  std::shared_ptr<const Entry> get(const AttrMap& attrs, const std::vector<TensorDesc>& operands) {
    Key key;
    key.second = attrs;
    for (const TensorDesc& operand : operands) {
      key.first.push_back(static_cast<int64_t>(operand.dtype));
      key.first.push_back(static_cast<int64_t>(operand.shape.size()));
      key.first.insert(key.first.end(), operand.shape.begin(), operand.shape.end());
    }
    {
      std::lock_guard lock(mutex_);
      if (auto it = entries_.find(key); it != entries_.end()) return it->second;
    }
    auto entry = std::make_shared<Entry>();
    entry->graph = make_(operands, attrs);
    make_positions_constant(entry->graph);
    if (fold_constants(entry->graph)) remove_dead(entry->graph);
    entry->schedule = std::make_shared<const Schedule>(entry->graph);
    std::lock_guard lock(mutex_);
    return entries_.emplace(std::move(key), std::move(entry)).first->second;
  }

 private:
  using Key = std::pair<std::vector<int64_t>, AttrMap>;
  CallFn make_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Entry>> entries_;
};

std::vector<TensorDesc> descs_of(std::span<const Array> arrays) {
  std::vector<TensorDesc> descs;
  for (const Array& array : arrays) descs.push_back({array.dtype(), array.shape()});
  return descs;
}

}  // namespace

Graph build_body(const BodyFn& body, std::span<const TensorDesc> operands, const AttrMap& attrs) {
  Graph graph;
  std::vector<Type> types;
  for (const TensorDesc& desc : operands) types.push_back(Type::tensor(desc.dtype, desc.shape));
  GraphBuilder builder = GraphBuilder::function(graph, "main", types);
  const std::vector<ValueId> args = graph.region(builder.region()).args;
  builder.finish(body(builder, attrs, args));
  return graph;
}

Operator operator_with_graph(std::string name, CallFn make, std::vector<Sample> samples) {
  Operator op;
  op.name = std::move(name);
  op.samples = std::move(samples);
  op.define = [make](const Sample& sample) { return make(sample.operands, sample.attrs); };
  auto cache = std::make_shared<GraphCache>(std::move(make));
  op.run = [cache](const AttrMap& attrs, std::span<const Array> operands) {
    auto entry = cache->get(attrs, descs_of(operands));
    Interpreter interpreter(entry->graph, entry->schedule, {});
    return interpreter.call("main", operands);
  };
  op.prepare = [cache](const AttrMap& attrs, const std::vector<TensorDesc>& operands) -> ArrayCall {
    auto entry = cache->get(attrs, operands);
    auto interpreter =
        std::make_shared<Interpreter>(entry->graph, entry->schedule, Interpreter::Options{});
    return [entry, interpreter](std::span<const Array> arrays) {
      return interpreter->call("main", arrays);
    };
  };
  return op;
}

Operator operator_with_body(std::string name, BodyFn body, std::vector<Sample> samples) {
  return operator_with_graph(
      std::move(name),
      [body](const std::vector<TensorDesc>& operands, const AttrMap& attrs) {
        return build_body(body, operands, attrs);
      },
      std::move(samples));
}

std::vector<Sample> cross_samples(const std::vector<std::vector<TensorDesc>>& operand_sets,
                                  const std::vector<AttrMap>& attr_sets) {
  std::vector<Sample> samples;
  for (const auto& operands : operand_sets)
    for (const AttrMap& attrs : attr_sets) samples.push_back({operands, attrs});
  return samples;
}

const std::vector<Operator>& operator_library() {
  static const std::vector<Operator> library = [] {
    std::vector<Operator> ops;
    add_elementwise_operators(ops);
    add_reduction_operators(ops);
    add_array_operators(ops);
    return ops;
  }();
  return library;
}

const Operator* find_operator(std::string_view name) {
  for (const Operator& op : operator_library())
    if (op.name == name) return &op;
  return nullptr;
}

}  // namespace cleave

#include "cleave/graph/json.h"

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "cleave/core/error.h"
#include "cleave/core/sharding_rule_text.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/registered_op.h"
#include "cleave/graph/text/resources.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"

namespace cleave {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "cleave-graph";
constexpr int kVersion = 1;

// Types and attributes keep MLIR's spelling: one text each, so nothing is lost.
class Writer {
 public:
  Writer(const Graph& graph, const JsonOptions& options)
      : graph_(graph), options_(options), names_(value_names(graph)) {}

  Json write() {
    Json root;
    root["format"] = kFormat;
    root["version"] = kVersion;
    if (!graph_.name.empty()) root["name"] = graph_.name;
    if (!graph_.attrs.empty()) root["attributes"] = attributes(graph_.attrs);
    Json& meshes = root["meshes"] = Json::object();
    for (const MeshPtr& mesh : graph_.meshes) meshes[mesh->name] = to_string(*mesh);
    for (const auto& [name, attrs] : graph_.mesh_attrs)
      root["mesh_attributes"][name] = attributes(attrs);
    Json& functions = root["functions"] = Json::array();
    for (const Function& each : graph_.functions) functions.push_back(function(each));
    return root;
  }

 private:
  static Json attributes(const AttrDict& attrs) {
    Json result = Json::object();
    for (const NamedAttribute& entry : attrs.entries()) {
      std::string text = to_string(entry.value);
      text::append_resources(text, entry.value);
      result[entry.name] = std::move(text);
    }
    return result;
  }

  Json tensor(ValueId id) {
    const Type& type = graph_.type(id);
    Json result;
    result["name"] = names_[id.index];
    result["type"] = to_string(type);
    if (type.is_tensor() && !type.unranked) {
      Json& shape = result["shape"] = Json::array();
      for (int64_t size : type.shape) shape.push_back(size == kDynamicSize ? -1 : size);
      result["dtype"] = type.dtype == DType::Other ? type.text : std::string(name(type.dtype));
      result["bytes"] = type.byte_count();
    }
    return result;
  }

  static void add_sharding(Json& tensor, const AttrDict& attrs) {
    const Attribute* value = attrs.find("sdy.sharding");
    if (value && value->as<ShardingAttr>())
      tensor["sharding"] = to_string_with_mesh(value->as<ShardingAttr>()->spec);
  }

  Json function(const Function& function) {
    Json result;
    result["name"] = function.name;
    if (!function.visibility.empty()) result["visibility"] = function.visibility;
    if (!function.attrs.empty()) result["attributes"] = attributes(function.attrs);
    Json& inputs = result["inputs"] = Json::array();
    for (size_t i = 0; i < function.arg_types.size(); ++i) {
      Json input;
      if (function.body.valid()) {
        input = tensor(graph_.region(function.body).args[i]);
      } else {
        input["type"] = to_string(function.arg_types[i]);
      }
      add_sharding(input, function.arg_attrs[i]);
      if (!function.arg_attrs[i].empty()) input["attributes"] = attributes(function.arg_attrs[i]);
      inputs.push_back(std::move(input));
    }
    Json& outputs = result["outputs"] = Json::array();
    for (size_t i = 0; i < function.result_types.size(); ++i) {
      Json output;
      output["type"] = to_string(function.result_types[i]);
      add_sharding(output, function.result_attrs[i]);
      if (!function.result_attrs[i].empty())
        output["attributes"] = attributes(function.result_attrs[i]);
      outputs.push_back(std::move(output));
    }
    if (function.body.valid()) result["nodes"] = nodes(function.body);
    return result;
  }

  Json nodes(RegionId region) {
    Json result = Json::array();
    for (NodeId id : graph_.region(region).nodes) result.push_back(node(id));
    return result;
  }

  Json node(NodeId id) {
    const Node& node = graph_.node(id);
    Json result;
    result["op"] = node.name();
    Json& operands = result["operands"] = Json::array();
    for (ValueId operand : node.operands) operands.push_back(names_[operand.index]);
    Json& results = result["results"] = Json::array();
    const Attribute* shardings = node.attrs.find("sdy.sharding");
    const auto* specs = shardings ? shardings->as<ShardingsAttr>() : nullptr;
    for (size_t i = 0; i < node.results.size(); ++i) {
      Json value = tensor(node.results[i]);
      if (specs && i < specs->specs.size())
        value["sharding"] = to_string_with_mesh(specs->specs[i]);
      results.push_back(std::move(value));
    }
    if (!node.attrs.empty()) result["attributes"] = attributes(node.attrs);
    if (options_.rules) add_rule(result, node);
    if (options_.costs) add_cost(result, node);
    if (!node.regions.empty()) {
      Json& regions = result["regions"] = Json::array();
      for (RegionId id : node.regions) {
        Json region;
        Json& arguments = region["arguments"] = Json::array();
        for (ValueId arg : graph_.region(id).args) arguments.push_back(tensor(arg));
        region["nodes"] = nodes(id);
        regions.push_back(std::move(region));
      }
    }
    return result;
  }

  void add_rule(Json& result, const Node& node) {
    const Attribute* own = node.attrs.find("sdy.sharding_rule");
    OpShardingRule rule;
    if (own && own->as<ShardingRuleAttr>())
      rule = *own->as<ShardingRuleAttr>()->rule;
    else if (node.def->rule && !has_unranked(graph_, node))
      rule = node.def->rule(graph_, node);
    if (rule.empty()) return;
    Json& text = result["rule"];
    text["short"] = to_short_string(rule);
    text["sdy"] = to_string(rule);
    Json& factors = text["factors"] = Json::object();
    for (size_t f = 0; f < rule.factors.size(); ++f)
      factors[factor_symbol(static_cast<FactorIndex>(f))] = rule.factors[f].size;
  }

  void add_cost(Json& result, const Node& node) {
    if (!node.def->cost || has_unranked(graph_, node)) return;
    const OpCost cost = node.def->cost(graph_, node);
    result["cost"] = {{"flops", cost.flops},
                      {"bytes_read", cost.bytes_read},
                      {"bytes_written", cost.bytes_written}};
  }

  const Graph& graph_;
  const JsonOptions& options_;
  std::vector<std::string> names_;
};

class Reader {
 public:
  explicit Reader(const Json& root) : root_(root) {}

  Graph read() {
    if (text(root_, "format", "the graph") != kFormat)
      throw_user("graph JSON: 'format' must be \"{}\"", kFormat);
    if (!root_.contains("version") || root_["version"] != kVersion)
      throw_user("graph JSON: only version {} is known", kVersion);
    if (root_.contains("name")) graph_.name = text(root_, "name", "the graph");
    if (root_.contains("meshes"))
      for (const auto& [name, value] : root_["meshes"].items()) {
        Mesh mesh = parse_mesh(string_of(value, "mesh '" + name + "'"));
        mesh.name = name;
        graph_.meshes.push_back(std::make_shared<const Mesh>(std::move(mesh)));
      }
    if (root_.contains("mesh_attributes"))
      for (const auto& [name, value] : root_["mesh_attributes"].items())
        graph_.mesh_attrs[name] = attributes(Json{{"attributes", value}}, "mesh '" + name + "'");
    graph_.attrs = attributes(root_, "the graph");
    for (const Json& each : list(root_, "functions", "the graph")) function(each);
    return std::move(graph_);
  }

 private:
  static std::string string_of(const Json& value, const std::string& what) {
    if (!value.is_string()) throw_user("graph JSON: {} must be a string", what);
    return value.get<std::string>();
  }
  static std::string text(const Json& object, const char* field, const std::string& where) {
    if (!object.is_object() || !object.contains(field))
      throw_user("graph JSON: '{}' is missing in {}", field, where);
    return string_of(object[field], fmt::format("'{}' in {}", field, where));
  }
  static const Json& list(const Json& object, const char* field, const std::string& where) {
    if (!object.is_object() || !object.contains(field) || !object[field].is_array())
      throw_user("graph JSON: '{}' in {} must be a list", field, where);
    return object[field];
  }

  MeshLookup meshes() const {
    return [this](std::string_view symbol) { return graph_.find_mesh(symbol); };
  }
  AttrDict attributes(const Json& object, const std::string& where) const {
    AttrDict result;
    if (!object.contains("attributes")) return result;
    if (!object["attributes"].is_object())
      throw_user("graph JSON: 'attributes' in {} must be an object", where);
    for (const auto& [name, value] : object["attributes"].items())
      result.set(name, parse_attribute(string_of(value, "attribute '" + name + "' in " + where),
                                       meshes()));
    return result;
  }
  // Of an input or output: a sharding may stand beside the attributes.
  AttrDict value_attributes(const Json& value, const std::string& where) const {
    AttrDict result = attributes(value, where);
    if (value.contains("sharding") && !result.has("sdy.sharding"))
      result.set("sdy.sharding",
                 parse_attribute("#sdy.sharding" + text(value, "sharding", where), meshes()));
    return result;
  }

  void define(const std::string& name, ValueId id) {
    if (!values_.emplace(name, id).second)
      throw_user("graph JSON: the value '{}' is defined twice", name);
    defined_.push_back(name);
    graph_.value(id).name = name.substr(name.rfind('%') == 0 ? 1 : 0);
  }

  void function(const Json& json) {
    Function result;
    result.name = text(json, "name", "a function");
    const std::string where = "function '" + result.name + "'";
    if (json.contains("visibility")) result.visibility = text(json, "visibility", where);
    result.attrs = attributes(json, where);
    values_.clear();
    defined_.clear();
    const bool has_body = json.contains("nodes");
    if (has_body) result.body = graph_.add_region();
    for (const Json& input : list(json, "inputs", where)) {
      result.arg_types.push_back(parse_type(text(input, "type", "an input of " + where)));
      result.arg_attrs.push_back(value_attributes(input, where));
      if (has_body)
        define(text(input, "name", "an input of " + where),
               graph_.add_argument(result.body, result.arg_types.back()));
    }
    for (const Json& output : list(json, "outputs", where)) {
      result.result_types.push_back(parse_type(text(output, "type", "an output of " + where)));
      result.result_attrs.push_back(value_attributes(output, where));
    }
    if (has_body)
      for (const Json& each : list(json, "nodes", where)) node(each, result.body, where, 0);
    graph_.functions.push_back(std::move(result));
  }

  void node(const Json& json, RegionId parent, const std::string& where, int depth) {
    if (depth > kMaxDepth) throw_user("graph JSON: regions are nested too deeply");
    const std::string op = text(json, "op", "a node of " + where);
    const std::string here = op + " in " + where;
    std::vector<ValueId> operands;
    for (const Json& operand : list(json, "operands", here)) {
      const std::string name = string_of(operand, "an operand of " + here);
      const auto it = values_.find(name);
      if (it == values_.end())
        throw_user("graph JSON: the value '{}' of {} is not defined", name, here);
      operands.push_back(it->second);
    }
    std::vector<Type> types;
    std::vector<std::string> names;
    std::vector<ShardingSpec> shardings;
    for (const Json& result : list(json, "results", here)) {
      types.push_back(parse_type(text(result, "type", here)));
      names.push_back(text(result, "name", here));
      if (!result.contains("sharding")) continue;
      const Attribute sharding =
          parse_attribute("#sdy.sharding" + text(result, "sharding", here), meshes());
      shardings.push_back(sharding.as<ShardingAttr>()->spec);
    }
    AttrDict attrs = attributes(json, here);
    if (!shardings.empty() && shardings.size() == types.size() && !attrs.has("sdy.sharding"))
      attrs.set("sdy.sharding", ShardingsAttr{std::move(shardings)});
    bind_attributes(op, attrs);
    const NodeId id = graph_.add_node(op, std::move(operands), std::move(types), std::move(attrs));
    if (json.contains("regions"))
      for (const Json& each : list(json, "regions", here)) region(each, id, where, depth);
    graph_.append(parent, id);
    for (size_t i = 0; i < names.size(); ++i) define(names[i], graph_.node(id).results[i]);
    if (json.contains("rule")) rule(json["rule"], id, here);
  }

  void region(const Json& json, NodeId owner, const std::string& where, int depth) {
    const RegionId id = graph_.add_region(owner);
    const size_t mark = defined_.size();
    for (const Json& argument : list(json, "arguments", where))
      define(text(argument, "name", where),
             graph_.add_argument(id, parse_type(text(argument, "type", where))));
    for (const Json& each : list(json, "nodes", where)) node(each, id, where, depth + 1);
    for (size_t i = mark; i < defined_.size(); ++i) values_.erase(defined_[i]);
    defined_.resize(mark);
  }

  // An op that has no rule of its own gets this one.
  void rule(const Json& json, NodeId id, const std::string& here) {
    Node& node = graph_.node(id);
    const bool knows = node.def->rule && (!node.def->opaque || registered_op_of(node));
    if (knows || node.attrs.has("sdy.sharding_rule")) return;
    OpShardingRule rule;
    if (json.contains("sdy")) {
      rule = parse_sharding_rule(text(json, "sdy", here));
    } else {
      std::vector<Shape> shapes;
      for (ValueId operand : node.operands) shapes.push_back(graph_.type(operand).shape);
      for (ValueId result : node.results) shapes.push_back(graph_.type(result).shape);
      rule = parse_short_rule(text(json, "short", here), shapes);
    }
    rule.is_custom = true;
    node.attrs.set("sdy.sharding_rule",
                   ShardingRuleAttr{std::make_shared<const OpShardingRule>(std::move(rule))});
  }

  static constexpr int kMaxDepth = 200;

  const Json& root_;
  Graph graph_;
  std::unordered_map<std::string, ValueId> values_;
  std::vector<std::string> defined_;
};

}  // namespace

std::string graph_to_json(const Graph& graph, const JsonOptions& options) {
  const Json json = Writer(graph, options).write();
  try {
    return json.dump(options.indent);
  } catch (const Json::exception&) {
    throw_user("graph JSON: the module has text that is not UTF-8, which JSON cannot hold");
  }
}

Graph graph_from_json(std::string_view json) {
  Graph graph = graph_from_json_unverified(json);
  verify_graph(graph);
  return graph;
}

Graph graph_from_json_unverified(std::string_view json) {
  try {
    const Json root = Json::parse(json);
    return Reader(root).read();
  } catch (const Json::exception& error) {
    throw_user("graph JSON: {}", error.what());
  }
}

}  // namespace cleave

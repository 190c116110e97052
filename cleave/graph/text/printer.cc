#include "cleave/graph/text/printer.h"
#include "cleave/graph/text/resources.h"

#include <algorithm>

#include "cleave/graph/text/attribute_printer.h"

namespace cleave {
namespace text {

void Printer::values(std::span<const ValueId> ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i) out += ", ";
    value(ids[i]);
  }
}

void Printer::type_of(ValueId id) { append_type(out, graph.type(id)); }

void Printer::types_of(std::span<const ValueId> ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i) out += ", ";
    type_of(ids[i]);
  }
}

void Printer::signature(const Node& node) {
  out += '(';
  types_of(node.operands);
  out += ") -> ";
  const bool bare =
      node.results.size() == 1 && graph.type(node.results[0]).kind != Type::Kind::Function;
  if (!bare) out += '(';
  types_of(node.results);
  if (!bare) out += ')';
}

void Printer::region_argument(ValueId id) {
  value(id);
  out += ": ";
  type_of(id);
}

void Printer::attribute(const Attribute& attribute) {
  append_attribute(out, attribute, options.hex_limit);
}

bool Printer::is_default(const Node& node, std::string_view attribute) const {
  const Attribute* value = node.attrs.find(attribute);
  const Attribute* fallback = default_attribute(node.name(), attribute);
  return value && fallback && *value == *fallback;
}

void Printer::attr_dict(const Node& node, const std::function<bool(std::string_view)>& elided,
                        std::string_view before) {
  bool first = true;
  for (const NamedAttribute& entry : node.attrs.entries()) {
    if (elided(entry.name)) continue;
    if (first) {
      out += before;
      out += '{';
    } else {
      out += ", ";
    }
    first = false;
    append_named(out, entry, options.hex_limit);
  }
  if (!first) out += '}';
}

void Printer::new_line() {
  out += '\n';
  out.append(static_cast<size_t>(indent_), ' ');
}

void Printer::location(const std::string& text) {
  if (options.locations && !text.empty()) out += " loc(" + text + ")";
}

void Printer::region(RegionId id, bool header, bool is_function_body) {
  const Region& region = graph.region(id);
  out += '{';
  if (header && !region.args.empty()) {
    new_line();
    out += "^bb0(";
    for (size_t i = 0; i < region.args.size(); ++i) {
      if (i) out += ", ";
      region_argument(region.args[i]);
    }
    out += "):";
  }
  indent_ += 2;
  for (NodeId node_id : region.nodes) {
    new_line();
    node(node_id, is_function_body);
  }
  indent_ -= 2;
  new_line();
  out += '}';
}

void Printer::results(const Node& node) {
  if (node.results.empty()) return;
  const std::string_view first = names[node.results[0].index];
  const size_t hash = first.find('#');
  if (hash == std::string_view::npos) {
    values(node.results);
  } else {
    out += first.substr(0, hash);
    out += ':';
    append_int(out, static_cast<int64_t>(node.results.size()));
  }
  out += " = ";
}

void Printer::node(NodeId id, bool in_function_body) {
  const Node& node = graph.node(id);
  results(node);
  const OpSyntax* syntax = find_syntax(node.name());
  if (!options.generic && syntax && has_pretty_form(graph, *syntax, node)) {
    const PrintFn custom = custom_printer(node.name());
    std::string_view name = node.name();
    if (in_function_body && name.substr(0, 5) == "func.") name.remove_prefix(5);
    out += name;
    if (custom)
      custom(*this, node);
    else
      print_by_format(*this, *syntax, node);
  } else {
    append_string(out, node.name());
    generic_tail(node);
  }
  location(node.location);
}

void Printer::generic_tail(const Node& node) {
  const OpSyntax* syntax = find_syntax(node.name());
  const auto is_property = [&](std::string_view name) {
    return syntax && syntax->is_property(name);
  };
  out += '(';
  values(node.operands);
  out += ')';
  const size_t before = out.size();
  attr_dict(
      node, [&](std::string_view name) { return !is_property(name); }, " <");
  if (out.size() != before) out += '>';
  if (!node.regions.empty()) {
    out += " (";
    for (size_t i = 0; i < node.regions.size(); ++i) {
      if (i) out += ", ";
      region(node.regions[i], true);
    }
    out += ')';
  }
  attr_dict(node, is_property);
  out += " : ";
  signature(node);
}

void Printer::mesh(const Mesh& mesh) {
  if (options.generic) {
    out += "\"sdy.mesh\"() <{mesh = #sdy.mesh" + to_string(mesh) + ", sym_name = ";
    append_string(out, mesh.name);
    out += "}>";
  } else {
    out += "sdy.mesh ";
    append_symbol(out, mesh.name);
    out += " = " + to_string(mesh);
  }
  if (const auto attrs = graph.mesh_attrs.find(mesh.name); attrs != graph.mesh_attrs.end()) {
    out += ' ';
    append_dict(out, attrs->second, options.hex_limit);
  }
  if (options.generic) out += " : () -> ()";
}

void Printer::function(const Function& function) {
  out += "func.func ";
  if (!function.visibility.empty()) out += function.visibility + " ";
  append_symbol(out, function.name);
  const auto append_attrs = [&](const std::vector<AttrDict>& dicts, size_t i) {
    if (i >= dicts.size() || dicts[i].empty()) return;
    out += ' ';
    append_dict(out, dicts[i], options.hex_limit);
  };
  out += '(';
  for (size_t i = 0; i < function.arg_types.size(); ++i) {
    if (i) out += ", ";
    if (function.body.valid()) {
      value(graph.region(function.body).args[i]);
      out += ": ";
    }
    append_type(out, function.arg_types[i]);
    append_attrs(function.arg_attrs, i);
  }
  out += ')';
  const std::vector<Type>& results = function.result_types;
  if (!results.empty()) {
    const bool has_attrs = !function.result_attrs.empty() && !function.result_attrs[0].empty();
    const bool bare = results.size() == 1 && !has_attrs && results[0].kind != Type::Kind::Function;
    out += bare ? " -> " : " -> (";
    for (size_t i = 0; i < results.size(); ++i) {
      if (i) out += ", ";
      append_type(out, results[i]);
      append_attrs(function.result_attrs, i);
    }
    if (!bare) out += ')';
  }
  if (!function.attrs.empty()) {
    out += " attributes ";
    append_dict(out, function.attrs, options.hex_limit);
  }
  if (function.body.valid()) {
    out += ' ';
    region(function.body, false, true);
  }
  location(function.location);
}

void Printer::generic_function(const Function& function) {
  AttrDict properties;
  const auto add_dicts = [&](std::string_view name, const std::vector<AttrDict>& dicts) {
    ArrayAttr array;
    bool any = false;
    for (const AttrDict& dict : dicts) {
      array.elements.emplace_back(DictAttr{dict});
      any = any || !dict.empty();
    }
    if (any) properties.set(name, std::move(array));
  };
  add_dicts("arg_attrs", function.arg_attrs);
  add_dicts("res_attrs", function.result_attrs);
  properties.set("function_type",
                 TypeAttr{Type::function(function.arg_types, function.result_types)});
  properties.set("sym_name", string_attr(function.name));
  if (!function.visibility.empty())
    properties.set("sym_visibility", string_attr(function.visibility));
  out += "\"func.func\"() <";
  append_dict(out, properties, options.hex_limit);
  out += "> (";
  if (function.body.valid()) {
    region(function.body, true);
  } else {
    out += '{';
    new_line();
    out += '}';
  }
  out += ')';
  if (!function.attrs.empty()) {
    out += ' ';
    append_dict(out, function.attrs, options.hex_limit);
  }
  out += " : () -> ()";
  location(function.location);
}

void Printer::module() {
  if (options.generic) {
    out += "\"builtin.module\"() ";
    if (!graph.name.empty()) {
      out += "<{sym_name = ";
      append_string(out, graph.name);
      out += "}> ";
    }
    out += "({";
    if (graph.meshes.empty() && graph.functions.empty()) out += "\n^bb0:";
  } else {
    out += "module ";
    if (!graph.name.empty()) {
      append_symbol(out, graph.name);
      out += ' ';
    }
    if (!graph.attrs.empty()) {
      out += "attributes ";
      append_dict(out, graph.attrs, options.hex_limit);
      out += ' ';
    }
    out += '{';
  }
  indent_ += 2;
  for (size_t f = 0; f <= graph.functions.size(); ++f) {
    for (size_t m = 0; m < graph.meshes.size(); ++m) {
      const auto& positions = graph.functions_before_mesh;
      const size_t position = m < positions.size() ? positions[m] : 0;
      if (std::min(position, graph.functions.size()) != f) continue;
      new_line();
      mesh(*graph.meshes[m]);
    }
    if (f == graph.functions.size()) break;
    new_line();
    if (options.generic)
      generic_function(graph.functions[f]);
    else
      function(graph.functions[f]);
  }
  indent_ -= 2;
  new_line();
  out += '}';
  if (options.generic) {
    out += ')';
    if (!graph.attrs.empty()) {
      out += ' ';
      append_dict(out, graph.attrs, options.hex_limit);
    }
    out += " : () -> ()";
  }
  out += '\n';
  append_resources(out, graph);
}

}  // namespace text

std::string print_module(const Graph& graph, const PrintOptions& options) {
  text::Printer printer(graph, options);
  printer.module();
  return std::move(printer.out);
}

std::string print_node(const Graph& graph, NodeId node, const PrintOptions& options) {
  text::Printer printer(graph, options);
  printer.node(node, false);
  return std::move(printer.out);
}

}  // namespace cleave

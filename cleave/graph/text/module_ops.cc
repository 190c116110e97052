#include <fmt/format.h>

#include "cleave/core/mesh_text.h"
#include "cleave/graph/text/module_parser.h"

// What stands at the level of a module: functions, meshes, aliases.

namespace cleave::text {

Graph ModuleParser::parse() {
  attrs_.set_resources(read_resources(lex_));
  while (lex_.peek() == '#' || lex_.peek() == '!') alias_definition();
  if (lex_.peek_word() == "module" || lex_.peek_word() == "builtin.module") {
    lex_.word();
    module_op();
  } else if (lex_.accept("\"builtin.module\"")) {
    generic_module();
  } else {
    while (!lex_.at_end() && lex_.source().compare(lex_.pos(), 3, "{-#") != 0) top_level();
  }
  while (!lex_.at_end()) {
    if (lex_.peek() == '#' || lex_.peek() == '!')
      alias_definition();
    else if (lex_.accept("{-#"))
      resources();
    else
      lex_.fail("unexpected text after the module");
  }
  shorten_locations();
  return std::move(graph_);
}

void ModuleParser::shorten_locations() {
  for (uint32_t i = 0; i < graph_.num_nodes(); ++i)
    if (std::string& location = graph_.node({i}).location; !location.empty())
      location = locations_.shortened(location);
  for (Function& function : graph_.functions)
    if (!function.location.empty()) function.location = locations_.shortened(function.location);
}

void ModuleParser::alias_definition() {
  const size_t pos = lex_.next_pos();
  const bool is_type = lex_.accept("!");
  if (!is_type) lex_.expect("#");
  std::string name(lex_.word());
  if (name.find('.') != std::string::npos) lex_.fail_at(pos, "an alias may not contain '.'");
  lex_.expect("=");
  if (lex_.peek_word() == "loc")
    locations_.define(std::move(name), attrs_.optional_location());
  else if (is_type)
    attrs_.define_type_alias(std::move(name), attrs_.type());
  else
    attrs_.define_attribute_alias(std::move(name), attrs_.attribute());
}

// {-# dialect_resources: { ... } #-}: read before the module.
void ModuleParser::resources() {
  const size_t end = lex_.source().find("#-}", lex_.pos());
  if (end == std::string_view::npos) lex_.fail("'{-#' without '#-}'");
  lex_.seek(end + 3);
}

void ModuleParser::module_op() {
  const size_t pos = lex_.next_pos();
  if (lex_.peek() == '@') graph_.name = lex_.symbol();
  if (lex_.accept_word("attributes")) graph_.attrs = attrs_.dict();
  reject_attributes(graph_.attrs, pos, {"sym_name"});
  const size_t begin = lex_.next_pos();
  lex_.expect("{");
  while (!lex_.accept("}")) {
    if (lex_.at_end()) lex_.fail_at(begin, "a module that is not closed");
    top_level();
  }
  attrs_.optional_location();
}

void ModuleParser::generic_module() {
  lex_.expect("(");
  lex_.expect(")");
  AttrDict attrs;
  if (lex_.accept("<")) {
    attrs = attrs_.dict();
    lex_.expect(">");
  }
  lex_.expect("(");
  const size_t begin = lex_.next_pos();
  lex_.expect("{");
  if (lex_.accept("^")) {
    lex_.word();
    lex_.expect(":");
  }
  while (!lex_.accept("}")) {
    if (lex_.at_end()) lex_.fail_at(begin, "a module that is not closed");
    top_level();
  }
  lex_.expect(")");
  const AttrDict others = attrs_.optional_dict();
  for (const NamedAttribute& entry : others.entries()) attrs.set(entry.name, entry.value);
  lex_.expect(":");
  attrs_.function_type();
  attrs_.optional_location();
  if (const Attribute* name = attrs.find("sym_name"); name && name->as<StringAttr>()) {
    graph_.name = name->as<StringAttr>()->value;
    attrs.erase("sym_name");
  }
  graph_.attrs = std::move(attrs);
}

void ModuleParser::top_level() {
  const char next = lex_.peek();
  if (next == '#' || next == '!') {
    alias_definition();
  } else if (next == '"') {
    generic_top_level_op();
  } else if (lex_.accept_word("func.func")) {
    function_op();
  } else if (lex_.accept_word("sdy.mesh")) {
    mesh_op();
  } else if (lex_.peek_word() == "module" || lex_.peek_word() == "builtin.module") {
    lex_.fail("a module inside a module");
  } else {
    lex_.fail("expected func.func or sdy.mesh");
  }
}

// Names that the syntax itself gives cannot stand in the dictionary too: they would be said twice.
void ModuleParser::reject_attributes(const AttrDict& attrs, size_t pos,
                                     std::initializer_list<std::string_view> names) {
  for (std::string_view name : names)
    if (attrs.has(name))
      lex_.fail_at(pos, fmt::format("attribute '{}' is given by the syntax; leave it out of the "
                                    "dictionary",
                                    name));
}

void ModuleParser::mesh_op() {
  const size_t pos = lex_.next_pos();
  std::string name = lex_.symbol();
  lex_.expect("=");
  if (lex_.accept("#")) lex_.expect_word("sdy.mesh");
  Mesh mesh = lex_.with_cursor([](TextCursor& cursor) { return parse_mesh_body(cursor); });
  mesh.name = std::move(name);
  AttrDict attrs = attrs_.optional_dict();
  reject_attributes(attrs, pos, {"mesh", "sym_name"});
  if (!attrs.empty()) graph_.mesh_attrs[mesh.name] = std::move(attrs);
  attrs_.optional_location();
  add_mesh(std::move(mesh), pos);
}

void ModuleParser::function_arguments(Function& function, std::vector<NamedArgument>& names) {
  lex_.expect("(");
  if (lex_.accept(")")) return;
  const bool named = lex_.at_value();
  do {
    NamedArgument argument;
    if (named) {
      argument.name = lex_.value_name();
      lex_.expect(":");
    }
    argument.type = attrs_.type();
    function.arg_types.push_back(argument.type);
    function.arg_attrs.push_back(attrs_.optional_dict());
    attrs_.optional_location();
    if (named) names.push_back(std::move(argument));
  } while (lex_.accept(","));
  lex_.expect(")");
}

void ModuleParser::function_results(Function& function) {
  if (!lex_.accept("->")) return;
  if (lex_.peek() != '(') {
    function.result_types.push_back(attrs_.type());
    function.result_attrs.emplace_back();
    return;
  }
  lex_.expect("(");
  if (lex_.accept(")")) return;
  do {
    function.result_types.push_back(attrs_.type());
    function.result_attrs.push_back(attrs_.optional_dict());
  } while (lex_.accept(","));
  lex_.expect(")");
}

void ModuleParser::function_op() {
  Function function;
  for (std::string_view visibility : {"public", "private", "nested"})
    if (lex_.accept_word(visibility)) function.visibility = visibility;
  const size_t pos = lex_.next_pos();
  function.name = lex_.symbol();
  if (graph_.find_function(function.name))
    lex_.fail_at(pos, fmt::format("function @{} is defined twice", function.name));
  std::vector<NamedArgument> names;
  function_arguments(function, names);
  function_results(function);
  if (lex_.accept_word("attributes")) function.attrs = attrs_.dict();
  reject_attributes(function.attrs, pos,
                    {"arg_attrs", "function_type", "res_attrs", "sym_name", "sym_visibility"});
  if (lex_.peek() == '{') {
    if (names.size() != function.arg_types.size())
      lex_.fail_at(pos, "the arguments of a function with a body need names");
    function.body = region(names, true);
  }
  function.location = attrs_.optional_location();
  graph_.functions.push_back(std::move(function));
}

void ModuleParser::generic_top_level_op() {
  const size_t pos = lex_.next_pos();
  const std::string name = lex_.string_literal();
  if (name != "func.func" && name != "sdy.mesh")
    lex_.fail_at(pos, fmt::format("\"{}\" at the level of the module", name));
  lex_.expect("(");
  lex_.expect(")");
  AttrDict attrs;
  if (lex_.accept("<")) {
    attrs = attrs_.dict();
    lex_.expect(">");
  }
  Function function;
  if (lex_.accept("(")) {
    if (name != "func.func") lex_.fail_at(pos, "a mesh has no region");
    const size_t brace = lex_.next_pos();
    lex_.expect("{");
    if (!lex_.accept("}")) {
      lex_.seek(brace);
      function.body = region({}, true);
    }
    lex_.expect(")");
  }
  const AttrDict others = attrs_.optional_dict();
  for (const NamedAttribute& entry : others.entries()) attrs.set(entry.name, entry.value);
  lex_.expect(":");
  attrs_.function_type();
  function.location = attrs_.optional_location();
  if (!attrs.has("sym_name")) lex_.fail_at(pos, "attribute 'sym_name' is missing");
  const auto take = [&](std::string_view key) {
    const Attribute* value = attrs.find(key);
    Attribute result = value ? *value : Attribute();
    attrs.erase(key);
    return result;
  };
  const Attribute symbol = take("sym_name");
  if (!symbol.as<StringAttr>()) lex_.fail_at(pos, "attribute 'sym_name' must be a string");
  if (name == "sdy.mesh") {
    const Attribute mesh = take("mesh");
    if (!mesh.as<MeshAttr>()) lex_.fail_at(pos, "attribute 'mesh' must be a mesh");
    Mesh value = mesh.as<MeshAttr>()->mesh;
    value.name = symbol.as<StringAttr>()->value;
    if (!attrs.empty()) graph_.mesh_attrs[value.name] = std::move(attrs);
    add_mesh(std::move(value), pos);
    return;
  }
  function.name = symbol.as<StringAttr>()->value;
  if (graph_.find_function(function.name))
    lex_.fail_at(pos, fmt::format("function @{} is defined twice", function.name));
  const Attribute visibility = take("sym_visibility");
  if (const auto* text = visibility.as<StringAttr>()) function.visibility = text->value;
  const Attribute type = take("function_type");
  if (!type.as<TypeAttr>() || type.as<TypeAttr>()->type.kind != Type::Kind::Function)
    lex_.fail_at(pos, "attribute 'function_type' must be a function type");
  const Type& signature = type.as<TypeAttr>()->type;
  const auto results = signature.elements.begin() + signature.num_inputs;
  function.arg_types.assign(signature.elements.begin(), results);
  function.result_types.assign(results, signature.elements.end());
  const auto dicts = [&](std::string_view key, size_t count) {
    std::vector<AttrDict> result(count);
    const Attribute value = take(key);
    const auto* array = value.as<ArrayAttr>();
    if (array && array->elements.size() == count)
      for (size_t i = 0; i < count; ++i)
        if (const auto* dict = array->elements[i].as<DictAttr>()) result[i] = dict->dict;
    return result;
  };
  function.arg_attrs = dicts("arg_attrs", function.arg_types.size());
  function.result_attrs = dicts("res_attrs", function.result_types.size());
  if (function.body.valid()) {
    const std::vector<ValueId>& args = graph_.region(function.body).args;
    bool same = args.size() == function.arg_types.size();
    for (size_t i = 0; same && i < args.size(); ++i)
      same = graph_.type(args[i]) == function.arg_types[i];
    if (!same) lex_.fail_at(pos, "the arguments of the body are not those of the function's type");
  }
  function.attrs = std::move(attrs);
  graph_.functions.push_back(std::move(function));
}

}  // namespace cleave::text

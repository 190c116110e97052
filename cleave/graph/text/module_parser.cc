#include "cleave/graph/text/module_parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "cleave/core/mesh_text.h"
#include "cleave/graph/text/source.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"

namespace cleave::text {

ModuleParser::ModuleParser(std::string_view text)
    : lex_(text), attrs_(lex_, [this](std::string_view symbol) { return find_mesh(symbol); }) {}

MeshPtr ModuleParser::find_mesh(std::string_view symbol) {
  if (MeshPtr mesh = graph_.find_mesh(symbol)) return mesh;
  if (!meshes_scanned_) scan_meshes();
  for (const MeshPtr& mesh : scanned_meshes_)
    if (mesh->name == symbol) return mesh;
  return nullptr;
}

// A mesh may be defined after its first use: looks for definitions in the rest of the text. What is
// no definition after all (a comment, a string) is reported, if it matters, when the parser gets
// there.
void ModuleParser::scan_meshes() {
  meshes_scanned_ = true;
  constexpr std::string_view kMesh = "sdy.mesh";
  const std::string_view text = lex_.source();
  for (size_t pos = text.find(kMesh, lex_.pos()); pos != std::string_view::npos;
       pos = text.find(kMesh, pos + kMesh.size())) {
    Lexer lexer(text);
    lexer.seek(pos + kMesh.size());
    try {
      Mesh mesh;
      if (lexer.accept("\"")) {
        lexer.expect("(");
        lexer.expect(")");
        lexer.accept("<");
        AttributeParser attributes(lexer, [](std::string_view) { return nullptr; });
        const AttrDict dict = attributes.dict();
        const Attribute* value = dict.find("mesh");
        if (!value || !value->as<MeshAttr>()) continue;
        mesh = value->as<MeshAttr>()->mesh;
        mesh.name = dict.get_string("sym_name");
      } else {
        std::string name = lexer.symbol();
        lexer.expect("=");
        lexer.accept("#sdy.mesh");
        mesh = lexer.with_cursor([](TextCursor& cursor) { return parse_mesh_body(cursor); });
        mesh.name = std::move(name);
        normalize_and_verify(mesh);
      }
      scanned_meshes_.push_back(std::make_shared<const Mesh>(std::move(mesh)));
    } catch (const UserError&) {
      continue;
    }
  }
}

void ModuleParser::add_mesh(Mesh mesh, size_t pos) {
  try {
    normalize_and_verify(mesh);
  } catch (const UserError& error) {
    lex_.fail_at(pos, error.what());
  }
  if (graph_.find_mesh(mesh.name))
    lex_.fail_at(pos, fmt::format("mesh @{} is defined twice", mesh.name));
  graph_.functions_before_mesh.push_back(graph_.functions.size());
  for (const MeshPtr& scanned : scanned_meshes_)
    if (*scanned == mesh) {
      graph_.meshes.push_back(scanned);
      return;
    }
  graph_.meshes.push_back(std::make_shared<const Mesh>(std::move(mesh)));
}

ValueId ModuleParser::operand() {
  const size_t pos = lex_.next_pos();
  const std::string_view name = lex_.value_name();
  uint32_t index = 0;
  if (lex_.current() == '#') {
    lex_.accept("#");
    const int64_t number = lex_.integer();
    if (number < 0 || number > UINT32_MAX) lex_.fail_at(pos, "a result number out of range");
    index = static_cast<uint32_t>(number);
  }
  const auto it = names_.find(name);
  if (it == names_.end()) lex_.fail_at(pos, fmt::format("use of an undefined value %{}", name));
  if (index >= it->second.count)
    lex_.fail_at(pos, fmt::format("%{}#{} does not exist: %{} has {} result{}", name, index, name,
                                  it->second.count, it->second.count == 1 ? "" : "s"));
  return {it->second.first.index + index};
}

std::vector<ValueId> ModuleParser::operand_list() {
  std::vector<ValueId> operands;
  if (!lex_.at_value()) return operands;
  while (true) {
    operands.push_back(operand());
    const size_t comma = lex_.pos();
    if (!lex_.accept(",")) return operands;
    if (!lex_.at_value()) {
      lex_.seek(comma);
      return operands;
    }
  }
}

void ModuleParser::check_types(const std::vector<ValueId>& operands, const std::vector<Type>& types,
                               size_t pos) {
  if (operands.size() != types.size())
    lex_.fail_at(pos,
                 fmt::format("{} operands, but {} operand types", operands.size(), types.size()));
  for (size_t i = 0; i < operands.size(); ++i)
    if (graph_.type(operands[i]) != types[i])
      lex_.fail_at(pos, fmt::format("operand {} is of type {}, not {}", i,
                                    to_string(graph_.type(operands[i])), to_string(types[i])));
}

void ModuleParser::signature(ParsedOp& op) {
  const size_t pos = lex_.next_pos();
  const std::vector<Type> inputs = attrs_.type_list_in_parens();
  check_types(op.operands, inputs, pos);
  lex_.expect("->");
  op.result_types = attrs_.result_types();
}

std::vector<NamedArgument> ModuleParser::argument_list() {
  std::vector<NamedArgument> args;
  lex_.expect("(");
  if (lex_.accept(")")) return args;
  do {
    NamedArgument argument;
    argument.name = lex_.value_name();
    lex_.expect(":");
    argument.type = attrs_.type();
    attrs_.optional_dict();
    attrs_.optional_location();
    args.push_back(std::move(argument));
  } while (lex_.accept(","));
  lex_.expect(")");
  return args;
}

void ModuleParser::define(std::string_view name, Binding binding, size_t pos) {
  if (!names_.emplace(name, binding).second)
    lex_.fail_at(pos, fmt::format("%{} is defined twice", name));
  defined_.push_back(name);
}

RegionId ModuleParser::region(const std::vector<NamedArgument>& args, bool isolated) {
  DepthGuard guard(attrs_.depth(), lex_);
  const RegionId id = graph_.add_region();
  Names outer;
  if (isolated) outer.swap(names_);
  const size_t mark = defined_.size();
  const size_t begin = lex_.next_pos();
  lex_.expect("{");
  const auto add_args = [&](const std::vector<NamedArgument>& list, size_t pos) {
    for (const NamedArgument& argument : list)
      define(argument.name, {graph_.add_argument(id, argument.type, std::string(argument.name)), 1},
             pos);
  };
  add_args(args, begin);
  if (lex_.peek() == '^') {
    lex_.expect("^");
    lex_.word();
    const size_t pos = lex_.next_pos();
    if (lex_.peek() == '(') {
      const std::vector<NamedArgument> own = argument_list();
      if (!args.empty() && !own.empty()) lex_.fail_at(pos, "arguments were already given");
      add_args(own, pos);
    }
    lex_.expect(":");
  }
  while (!lex_.accept("}")) {
    if (lex_.peek() == '^') lex_.fail("a second block; regions of one block are supported");
    if (lex_.at_end()) lex_.fail_at(begin, "a region that is not closed");
    op(id);
  }
  for (size_t i = mark; i < defined_.size(); ++i) names_.erase(defined_[i]);
  defined_.resize(mark);
  if (isolated) names_.swap(outer);
  return id;
}

void ModuleParser::add_attrs(ParsedOp& op, AttrDict dict, size_t pos) {
  if (op.attrs.empty()) {
    op.attrs = std::move(dict);
    return;
  }
  for (const NamedAttribute& entry : dict.entries()) {
    if (op.attrs.has(entry.name))
      lex_.fail_at(pos, fmt::format("attribute '{}' appears twice", entry.name));
    op.attrs.set(entry.name, entry.value);
  }
}

void ModuleParser::op(RegionId parent) {
  std::vector<ResultName> names;
  while (lex_.at_value()) {
    const size_t pos = lex_.next_pos();
    const std::string_view name = lex_.value_name();
    int64_t count = 1;
    if (lex_.accept(":")) count = lex_.integer();
    if (count < 1 || count > 1 << 20) lex_.fail_at(pos, "a number of results out of range");
    names.push_back({name, static_cast<uint32_t>(count), pos});
    if (lex_.accept("=")) break;
    lex_.expect(",");
  }
  ParsedOp op;
  op.begin = lex_.next_pos();
  std::string storage;
  if (lex_.peek() == '"') {
    storage = lex_.string_literal();
    op.name = storage;
    generic_op(op);
  } else {
    const std::string_view word = lex_.peek_word();
    if (word.empty()) lex_.fail("expected an op");
    lex_.word();
    op.name = word;
    if (word.find('.') == std::string_view::npos) {
      storage = fmt::format("func.{}", word);
      op.name = storage;
    }
    pretty_op(op);
  }
  finish_op(op, names, parent);
}

void ModuleParser::generic_op(ParsedOp& op) {
  lex_.expect("(");
  op.operands = operand_list();
  lex_.expect(")");
  if (lex_.peek() == '[') lex_.fail("successor blocks are not supported");
  if (lex_.accept("<")) {
    op.attrs = attrs_.dict();
    lex_.expect(">");
  }
  if (lex_.accept("(")) {
    do op.regions.push_back(region({}));
    while (lex_.accept(","));
    lex_.expect(")");
  }
  const size_t pos = lex_.next_pos();
  if (attrs_.at_dict()) add_attrs(op, attrs_.dict(), pos);
  lex_.expect(":");
  signature(op);
}

void ModuleParser::pretty_op(ParsedOp& op) {
  if (ParseFn parse = custom_parser(op.name)) {
    parse(*this, op);
    return;
  }
  const OpSyntax* syntax = find_syntax(op.name);
  if (!syntax || !syntax->has_format())
    lex_.fail_at(op.begin, fmt::format("unknown op '{0}'; an op without a syntax of its own is "
                                       "written as \"{0}\"(%operands) : (types) -> types",
                                       op.name));
  parse_by_format(*this, *syntax, op);
}

void ModuleParser::finish_op(ParsedOp& op, const std::vector<ResultName>& names, RegionId parent) {
  try {
    bind_attributes(op.name, op.attrs);
  } catch (const UserError& error) {
    lex_.fail_at(op.begin, error.what());
  }
  uint64_t named = 0;
  for (const ResultName& name : names) named += name.count;
  if (!names.empty() && named != op.result_types.size())
    lex_.fail_at(names[0].pos, fmt::format("{} result name{} for an op with {} result{}", named,
                                           named == 1 ? "" : "s", op.result_types.size(),
                                           op.result_types.size() == 1 ? "" : "s"));
  const NodeId id = graph_.add_node(op.name, std::move(op.operands), std::move(op.result_types),
                                    std::move(op.attrs));
  for (RegionId region : op.regions) graph_.region(region).owner = id;
  Node& node = graph_.node(id);
  node.regions = std::move(op.regions);
  graph_.append(parent, id);
  uint32_t next = 0;
  for (const ResultName& name : names) {
    const ValueId first = node.results[next];
    for (uint32_t i = 0; i < name.count; ++i) graph_.value(node.results[next + i]).name = name.name;
    define(name.name, {first, name.count}, name.pos);
    next += name.count;
  }
  node.location = attrs_.optional_location();
}

}  // namespace cleave::text

namespace cleave {

void bind_attributes(std::string_view op, AttrDict& attrs) {
  if (op.substr(0, 4) != "sdy.") return;
  for (std::string_view name : {"allowed_direction", "reduction_op"}) {
    const Attribute* value = attrs.find(name);
    const std::string_view enum_name =
        name == "reduction_op" ? "sdy.reduction_op" : "sdy.propagation_direction";
    if (value && value->as<IntegerAttr>())
      attrs.set(name, text::enum_from_integer(enum_name, value->as<IntegerAttr>()->value));
  }
  const Attribute* sharding = attrs.find("out_sharding");
  if (!sharding || !sharding->as<ShardingAttr>()) return;
  const MeshPtr mesh = sharding->as<ShardingAttr>()->spec.mesh;
  for (std::string_view name : {"gathering_axes", "slicing_axes", "reduce_scatter_axes", "axes",
                                "reduction_axes", "params"}) {
    const Attribute* value = attrs.find(name);
    if (!value || !value->as<OpaqueAttr>()) continue;
    std::string_view body = value->as<OpaqueAttr>()->text;
    const size_t bracket = body.find_first_of("[{");
    if (bracket == std::string_view::npos) throw_user("{}: '{}' must be axes", op, name);
    body.remove_prefix(bracket);
    attrs.set(name, name == "params" ? text::parse_moves(body, mesh)
                                     : text::parse_axis_lists(body, mesh));
  }
}

Type parse_type(std::string_view text) {
  text::Lexer lexer(text);
  text::AttributeParser parser(lexer, [](std::string_view) { return nullptr; });
  try {
    Type type = parser.type();
    if (!lexer.at_end()) lexer.fail("unexpected text after the type");
    return type;
  } catch (const ParseError& error) {
    throw UserError(text::render_error(text, error.offset, "<type>", 1, error.what()));
  }
}

Attribute parse_attribute(std::string_view text, const MeshLookup& meshes) {
  text::Lexer lexer(text);
  text::AttributeParser parser(lexer, meshes);
  try {
    parser.set_resources(text::read_resources(lexer));
    Attribute attribute = parser.attribute();
    if (lexer.source().compare(lexer.next_pos(), 3, "{-#") == 0) return attribute;
    if (!lexer.at_end()) lexer.fail("unexpected text after the attribute");
    return attribute;
  } catch (const ParseError& error) {
    throw UserError(text::render_error(text, error.offset, "<attribute>", 1, error.what()));
  }
}

Graph parse_module(std::string_view text, std::string_view file_name, size_t first_line) {
  Graph graph = parse_module_unverified(text, file_name, first_line);
  verify_graph(graph);
  return graph;
}

Graph parse_module_unverified(std::string_view text, std::string_view file_name,
                              size_t first_line) {
  try {
    return text::ModuleParser(text).parse();
  } catch (const ParseError& error) {
    throw UserError(text::render_error(text, error.offset, file_name, first_line, error.what()));
  }
}

}  // namespace cleave

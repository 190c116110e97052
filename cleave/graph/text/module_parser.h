#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/graph/location.h"
#include "cleave/graph/text/attribute_parser.h"
#include "cleave/graph/text/op_syntax.h"

namespace cleave::text {

// What has been read of an op so far.
struct ParsedOp {
  std::string_view name;
  size_t begin = 0;
  std::vector<ValueId> operands;
  AttrDict attrs;
  std::vector<Type> result_types;
  std::vector<RegionId> regions;
};

struct NamedArgument {
  std::string_view name;
  Type type;
};

// Reads a module into a Graph. The syntaxes of single ops are in op_format.cc (by table) and
// region_ops.cc (by hand); they use the methods below.
class ModuleParser {
 public:
  explicit ModuleParser(std::string_view text);
  Graph parse();

  Lexer& lexer() { return lex_; }
  AttributeParser& attributes() { return attrs_; }
  Graph& graph() { return graph_; }

  ValueId operand();  // %0 or %0#1
  std::vector<ValueId>
  operand_list();  // %0, %1; may be empty; leaves a comma that no value follows
  // The declared types of operands must be those of the values.
  void check_types(const std::vector<ValueId>& operands, const std::vector<Type>& types,
                   size_t pos);
  // `: (a, b) -> c`, after the colon: checks the operands, sets the result types.
  void signature(ParsedOp& op);
  // { ops } with arguments that the op has named, or with its own ^bb0(...). `isolated`: values
  // from outside are not visible inside.
  RegionId region(const std::vector<NamedArgument>& args, bool isolated = false);
  // (%a: t, %b: t)
  std::vector<NamedArgument> argument_list();
  // The attribute dictionary of an op, added to what is there.
  void add_attrs(ParsedOp& op, AttrDict dict, size_t pos);

 private:
  struct Binding {
    ValueId first;
    uint32_t count;
  };
  struct ResultName {
    std::string_view name;
    uint32_t count;
    size_t pos;
  };
  using Names = std::unordered_map<std::string_view, Binding>;

  MeshPtr find_mesh(std::string_view symbol);
  void scan_meshes();
  void add_mesh(Mesh mesh, size_t pos);

  void top_level();
  void module_op();
  void function_op();
  void function_arguments(Function& function, std::vector<NamedArgument>& names);
  void function_results(Function& function);
  void reject_attributes(const AttrDict& attrs, size_t pos,
                         std::initializer_list<std::string_view> names);
  void mesh_op();
  void generic_top_level_op();
  void generic_module();
  void alias_definition();
  void shorten_locations();
  void resources();

  void op(RegionId parent);
  void generic_op(ParsedOp& op);
  void pretty_op(ParsedOp& op);
  void finish_op(ParsedOp& op, const std::vector<ResultName>& names, RegionId parent);
  void define(std::string_view name, Binding binding, size_t pos);

  Lexer lex_;
  AttributeParser attrs_;
  LocationAliases locations_;
  Graph graph_;
  Names names_;
  std::vector<std::string_view> defined_;  // in order, to undo at the end of a region
  std::vector<MeshPtr> scanned_meshes_;
  bool meshes_scanned_ = false;
};

// op_format.cc: reads the rest of an op by its format.
void parse_by_format(ModuleParser& parser, const OpSyntax& syntax, ParsedOp& op);

// region_ops.cc: ops whose syntax no format describes. Null if there is none.
using ParseFn = void (*)(ModuleParser&, ParsedOp&);
ParseFn custom_parser(std::string_view op);

// Reads the axes of a collective again, now that the mesh is known.
Attribute parse_axis_lists(std::string_view text, const MeshPtr& mesh);
Attribute parse_moves(std::string_view text, const MeshPtr& mesh);

}  // namespace cleave::text

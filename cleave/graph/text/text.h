#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// Reads one module in MLIR's textual form: StableHLO, chlo, sdy, func and check ops in pretty or
// generic syntax, as JAX, Shardy and StableHLO's tests write them. Text without a `module` around
// it is a module too. The module is verified (cleave/graph/verify.h): what comes back, every pass
// and kernel can take. `file_name` and `first_line` are for messages. Throws UserError:
//
//   model.mlir:3:10: use of an undefined value %1
//       %2 = stablehlo.add %0, %1 : tensor<2xf32>
//                              ^
Graph parse_module(std::string_view text, std::string_view file_name = "<text>",
                   size_t first_line = 1);
// Only reads it: for `cleave opt --no-verify`, and for tests of the parser.
Graph parse_module_unverified(std::string_view text, std::string_view file_name = "<text>",
                              size_t first_line = 1);

// One of several modules in a file.
struct SourceChunk {
  std::string_view text;
  size_t first_line;  // of the text in the file, counted from 1
};
// Cuts at lines that start with `// -----`.
std::vector<SourceChunk> split_input(std::string_view text);

struct PrintOptions {
  bool generic = false;    // every op as "stablehlo.add"(%0, %1) : (...) -> ...
  bool locations = false;  // loc(...) after each op that has one
  size_t hex_limit = 100;  // constants of more elements print as one hex string
};

// One type, one attribute. Throw UserError.
Type parse_type(std::string_view text);
Attribute parse_attribute(std::string_view text, const MeshLookup& meshes);
// Attributes of sdy ops whose meaning depends on others of the op: the axes of a collective become
// those of the mesh of its out_sharding, enums that the generic syntax writes as integers get their
// names. `parse_module` has done so; attributes that were read alone need it.
void bind_attributes(std::string_view op, AttrDict& attrs);

// The text that MLIR's printer gives, ending with a line break.
std::string print_module(const Graph& graph, const PrintOptions& options = {});
// One op, on one line if it has no region, with the names that it has in the whole module.
std::string print_node(const Graph& graph, NodeId node, const PrintOptions& options = {});

// The names that the printer gives values, by ValueId: "%0", "%arg1", "%3#1". Values that no region
// lists have an empty name. In the generic syntax constants have no names of their own (%c, %cst).
std::vector<std::string> value_names(const Graph& graph, bool generic = false);

// An attribute as it prints in a dictionary: `1 : i64`, `#sdy.sharding<@mesh, [{"x"}]>`.
std::string to_string(const Attribute& attribute);

}  // namespace cleave

#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave::text {

class Lexer;

// The elements of dense_resource<key> constants, which stand behind the module:
//
//   {-#
//     dialect_resources: {
//       builtin: {
//         key: "0x040000000000803F"      the alignment in four bytes, then the elements
//       }
//     }
//   #-}
struct ResourceBlob {
  uint32_t alignment = 0;
  std::shared_ptr<const std::vector<std::byte>> bytes;
};
using ResourceBlobs = std::map<std::string, ResourceBlob, std::less<>>;

// The blobs at the end of a text; empty if there are none. Does not move the lexer.
ResourceBlobs read_resources(const Lexer& lexer);
// Appends the blobs of the constants of a graph or of an attribute, if there are any.
void append_resources(std::string& out, const Graph& graph);
void append_resources(std::string& out, const Attribute& attribute);

// The bytes of "0x0A0B", quotes at both ends, which begins at `begin` in the lexer's text.
std::vector<std::byte> hex_bytes(const Lexer& lexer, size_t begin, std::string_view digits);
void append_hex(std::string& out, const std::vector<std::byte>& bytes);  // 0A0B

}  // namespace cleave::text

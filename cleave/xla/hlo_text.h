#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cleave::xla {

// The text of an HLO module, cut into computations and instructions. Nothing is checked beyond
// that: what an instruction means is for its reader. All views are into the text.
//
//   %ar = f32[32,8]{1,0} all-reduce(%p), channel_id=1, replica_groups={{0,4},{1,5}}, to_apply=%add
//     name        ar
//     type        f32[32,8]{1,0}
//     opcode      all-reduce
//     operands    %p
//     attributes  , channel_id=1, replica_groups={{0,4},{1,5}}, to_apply=%add
struct HloInstruction {
  std::string_view name, type, opcode, operands, attributes;
  size_t line = 0;  // of the text, from 1
  bool is_root = false;
};

struct HloComputation {
  std::string_view name;
  std::vector<HloInstruction> instructions;
};

struct HloModule {
  std::string name;
  std::string_view header;  // the line of HloModule, and those that it goes on in
  int64_t partitions = 1, replicas = 1;
  bool states_devices = false;  // the header says how many partitions or replicas there are
  std::vector<HloComputation> computations;
  size_t entry = 0;
  std::unordered_map<std::string_view, size_t> by_name;  // computations

  const HloComputation& entry_computation() const { return computations[entry]; }
};

// Reads what XLA prints of a module (`compiled.as_text()` of JAX, an --xla_dump_to file, the
// optimized program of PJRT), with or without '%', with or without types of operands. The text must
// outlive the module. Throws UserError with the line if it is something else, or ends too early.
HloModule parse_hlo(std::string_view text);

// The value of an attribute, up to the comma after it: attribute(a, "to_apply") is "%add". Empty if
// there is none. A name inside brackets or quotes is not found.
std::string_view attribute(std::string_view attributes, std::string_view name);

// What stands between commas outside of brackets and quotes, without comments and spaces around.
std::vector<std::string_view> split_list(std::string_view list);
// The name that an operand or a list of computations has: "f32[8]{0} %x", "%x" and "x" are x.
std::string_view name_of(std::string_view operand);

// Bytes of the arrays of a type in order: "(f32[4,8]{1,0}, /*index=1*/s4[3], token[])" gives
// 128, 2, 0. Throws UserError for an element type that is not known.
std::vector<int64_t> array_bytes(std::string_view type);

}  // namespace cleave::xla

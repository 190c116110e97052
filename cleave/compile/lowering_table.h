#pragma once

#include <unordered_map>

#include "cleave/ops/op.h"

namespace cleave {

class Lowering;    // cleave/compile/lowering.h
struct CodeBlock;  // cleave/compile/device_code.h

// How the compiler writes each op: a row per op, found by its definition. An op without a row, and
// a node that its row does not take, become a call of the op's kernel (Lowering::kernel).
//
//   table.set<op::Pad>(&Lowering::pad);     in the file that has Lowering::pad
class LoweringTable {
 public:
  // Writes the steps of a node; false if it does not take this form of the op.
  using Row = bool (Lowering::*)(const Node&, CodeBlock&);

  template <typename Op>
  void set(Row row) {
    set(def_of<Op>(), row);
  }
  void set(const OpDef& op, Row row);  // throws InternalError if the op has a row
  Row find(const OpDef* op) const;     // null: the default

 private:
  std::unordered_map<const OpDef*, Row> rows_;
};

const LoweringTable& lowering_table();  // all families; filled at first use

}  // namespace cleave

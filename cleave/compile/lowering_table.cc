#include "cleave/compile/lowering_table.h"

#include "cleave/compile/lowering.h"
#include "cleave/core/error.h"

namespace cleave {

void LoweringTable::set(const OpDef& op, Row row) {
  internal_check(rows_.emplace(&op, row).second, "an op is lowered in two ways");
}

LoweringTable::Row LoweringTable::find(const OpDef* op) const {
  const auto it = rows_.find(op);
  return it == rows_.end() ? nullptr : it->second;
}

const LoweringTable& lowering_table() {
  static const LoweringTable table = Lowering::make_table();
  return table;
}

LoweringTable Lowering::make_table() {
  LoweringTable table;
  add_views(table);
  add_products(table);
  add_windows(table);
  add_sorts(table);
  add_linalg(table);
  add_flow(table);
  table.set<op::Fusion>(&Lowering::any_fusion);
  table.set<op::Transfer>(&Lowering::transfer);
  return table;
}

}  // namespace cleave

#include "cleave/core/placement.h"

#include "cleave/core/error.h"
#include "cleave/core/text_cursor.h"

namespace cleave {

std::string to_string(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::Replicate:
      return "R";
    case Placement::Kind::Shard:
      return placement.split > 1 ? fmt::format("S({}, {})", placement.dim, placement.split)
                                 : fmt::format("S({})", placement.dim);
    case Placement::Kind::Partial:
      return fmt::format("P({})", name(placement.reduce));
  }
  return "R";
}

Placement parse_placement(std::string_view text) {
  TextCursor cursor(text);
  try {
    Placement placement;
    const std::string_view kind = cursor.identifier();
    if (kind == "S") {
      cursor.expect("(");
      placement = Placement::shard(cursor.integer());
      if (cursor.accept(",")) placement.split = cursor.integer();
      cursor.expect(")");
    } else if (kind == "P") {
      cursor.expect("(");
      const std::string_view word = cursor.identifier();
      auto op = reduce_op_from_name(word);
      if (!op) cursor.fail(fmt::format("unknown reduction '{}'", word));
      placement = Placement::partial(*op);
      cursor.expect(")");
    } else if (kind != "R") {
      cursor.fail("unknown placement");
    }
    if (!cursor.at_end()) cursor.fail("unexpected text after the placement");
    return placement;
  } catch (const ParseError& error) {
    throw_user("placement '{}': {}; write R, S(0), S(0, 2) or P(sum)", text, error.what());
  }
}

}  // namespace cleave

#pragma once

#include <span>
#include <string_view>

namespace cleave::text {

// The syntax of one op, as OpSyntax explains it. `properties` lists the attributes of the op that
// the format does not mention, separated by spaces.
struct OpRow {
  std::string_view name;
  std::string_view format;
  std::string_view properties = "";
};

std::span<const OpRow> stablehlo_rows();
std::span<const OpRow> chlo_rows();
std::span<const OpRow> sdy_rows();
std::span<const OpRow>
other_rows();  // func, check, interpreter; of arith and tensor what StableHLO's tests use

}  // namespace cleave::text

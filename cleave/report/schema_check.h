#pragma once

#include <string>
#include <string_view>

#include "cleave/report/report_tables.h"

namespace cleave::report {

// What the first place of a document that does not match a JSON schema lacks, or nothing:
//
//   {"analysis": {"category": 3}}   ->   analysis.category is not one of "pointwise", "reduction"
//
// Of JSON schema it knows what docs/discovery-report.schema.json uses: type, enum, required,
// properties, additionalProperties, items, minimum, minLength and $ref to $defs. Patterns are left
// out: they are about texts that are only shown.
std::string schema_fault(const Json& document, const Json& schema);

}  // namespace cleave::report

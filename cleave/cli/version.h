#pragma once

namespace cleave::cli {

// "cleave 0.1.0 (v0.1-12-gabc1234)": the version of the project and the commit it was built from.
// Written by cmake/version.cmake.
extern const char* const kVersion;

}  // namespace cleave::cli

#pragma once

#include <string>
#include <vector>

#include "cleave/discover/operator.h"

namespace cleave::cli {

// What `cleave discover` is pointed at, as the command line says it.
struct OperatorText {
  std::string name;                 // cross, stablehlo.dot_general, softmax.mlir
  std::string command;              // a program that computes it; `name` is then any name
  std::vector<std::string> shapes;  // "8x3,8x3xf32": one entry per call
  std::vector<std::string> attrs;   // "dim=0,1"
  std::string domains;              // "any,index:6"
  double timeout = 60;              // seconds that a command has for an answer
};

// An operator of the library, an op of the registry, a module in a file, or a command. A command
// without shapes takes those of the library's operator of the same name.
Operator operator_of_text(const OperatorText& text);

std::vector<std::string> split(const std::string& text, char separator);
int64_t parse_int(const std::string& text, const char* what);

}  // namespace cleave::cli

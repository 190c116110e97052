#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <utility>

namespace cleave {

// tests/op_coverage.txt says which ops have been tried in which respect, for the table of
// docs/ops.md; a line is a column and an op. A suite that runs over a table of samples states here
// what the table covers, so that the file cannot say more than the tests do, nor less.
// scripts/ops-table rewrites it.
inline std::set<std::pair<std::string, std::string>> coverage_lines() {
  std::set<std::pair<std::string, std::string>> lines;
  std::ifstream file(std::string(CLEAVE_SOURCE_DIR) + "/tests/op_coverage.txt");
  for (std::string a, b; file >> a >> b;) lines.emplace(a, b);
  return lines;
}
inline std::set<std::string> stated_coverage(const std::string& column) {
  std::set<std::string> ops;
  for (const auto& [name, op] : coverage_lines())
    if (name == column) ops.insert(op);
  return ops;
}
inline void expect_coverage(const std::string& column, const std::set<std::string>& ops) {
  const std::string path = std::string(CLEAVE_SOURCE_DIR) + "/tests/op_coverage.txt";
  std::set<std::pair<std::string, std::string>> lines = coverage_lines();
  std::set<std::string> stated = stated_coverage(column);
  if (std::getenv("CLEAVE_UPDATE_COVERAGE")) {
    std::erase_if(lines, [&](const auto& line) { return line.first == column; });
    for (const std::string& op : ops) lines.emplace(column, op);
    std::ofstream file(path);
    for (const auto& [name, op] : lines) file << name << ' ' << op << '\n';
    stated = ops;
  }
  EXPECT_EQ(stated, ops) << "column " << column << ": run scripts/ops-table";
}

}  // namespace cleave

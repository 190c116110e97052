#include "cleave/runtime/roll_call.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <vector>

#include "cleave/core/error.h"

namespace cleave {

bool leave_in_report(const std::string& line) {
  const char* path = std::getenv(kReportVariable);
  if (!path) return false;
  const int file = ::open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return false;
  // One write of a whole line: ranks share the file.
  const std::string text = line + "\n";
  const ssize_t written = write(file, text.data(), text.size());
  close(file);
  return written == static_cast<ssize_t>(text.size());
}

double seconds_in(const char* name, double otherwise) {
  const char* value = std::getenv(name);
  const std::string text = value ? value : "";
  if (text.empty()) return otherwise;
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(seconds > 0) || seconds > 1e6)
    throw_user("{}={}: say a number of seconds, such as 60", name, text);
  return seconds;
}

double join_patience() { return seconds_in("CLEAVE_JOIN_TIMEOUT", 60); }

void sign_in(int rank) { leave_in_report(fmt::format("{} {}", rank, kPresent)); }

std::string missing_ranks() {
  const char* path = std::getenv(kReportVariable);
  const char* count = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (!path || !count) return {};
  std::set<int> present;
  std::ifstream file(path);
  int rank = 0;
  for (std::string rest; file >> rank && std::getline(file, rest);) present.insert(rank);
  std::vector<int> missing;
  for (int i = 0; i < std::atoi(count); ++i)
    if (!present.contains(i)) missing.push_back(i);
  if (missing.empty() || present.empty()) return {};
  std::string text = missing.size() == 1 ? "; rank " : "; ranks ";
  constexpr size_t kMost = 16;
  for (size_t i = 0; i < missing.size() && i < kMost; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == missing.size() ? " and " : ", ", missing[i]);
  return text + (missing.size() > kMost ? " and others" : "") +
         (missing.size() == 1 ? " has not come" : " have not come");
}

}  // namespace cleave

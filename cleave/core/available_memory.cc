#include "cleave/core/available_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cleave/core/error.h"
#include "cleave/core/units.h"

namespace cleave {
namespace {

// Requests below this never read /proc.
constexpr int64_t kSmall = int64_t{64} << 20;

// The first number of a small file, after `key` if one is given; -1 if there is none.
int64_t number_in(const char* path, const char* key = nullptr) {
  FILE* file = std::fopen(path, "r");
  if (!file) return -1;
  std::array<char, 4096> text;
  const size_t size = std::fread(text.data(), 1, text.size() - 1, file);
  std::fclose(file);
  text[size] = 0;
  const char* at = text.data();
  if (key) {
    at = std::strstr(at, key);
    if (!at) return -1;
    at += std::strlen(key);
  }
  char* end = nullptr;
  const long long number = std::strtoll(at, &end, 10);
  return end == at || number < 0 ? -1 : static_cast<int64_t>(number);
}

int64_t available_of_group() {
  for (const auto& [limit, used] :
       {std::pair("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        std::pair("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                  "/sys/fs/cgroup/memory/memory.usage_in_bytes")}) {
    const int64_t most = number_in(limit), now = number_in(used);
    if (most >= 0 && now >= 0) return std::max<int64_t>(most - now, 0);
  }
  return INT64_MAX;
}

int64_t available_addresses() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
  const int64_t pages = std::max<int64_t>(number_in("/proc/self/statm"), 0);
  const auto most = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX));
  return std::max<int64_t>(most - pages * sysconf(_SC_PAGESIZE), 0);
}

}  // namespace

int64_t available_memory() {
  int64_t available = INT64_MAX;
  const int64_t kilobytes = number_in("/proc/meminfo", "MemAvailable:");
  if (kilobytes >= 0) available = std::min(available, kilobytes * 1024);
  return std::min({available, available_of_group(), available_addresses()});
}

void check_fits(int64_t bytes, std::string_view what) {
  if (bytes <= kSmall) return;
  const int64_t available = available_memory();
  if (bytes > available)
    throw_user("{}: {} are needed, and {} of memory are available", what,
               bytes_text(bytes, BytesStyle::Estimate),
               bytes_text(available, BytesStyle::Estimate));
}

}  // namespace cleave

#include <fmt/core.h>

#include "cleave/core/shard_layout.h"
#include "cleave/core/sharding.h"

int main() {
  auto mesh = std::make_shared<const cleave::Mesh>(cleave::Mesh{{"data", 2}, {"model", 4}});
  const auto spec = cleave::parse_sharding(R"([{"data"}, {"model"}])", mesh);
  const cleave::Shape local = cleave::local_shape(spec, {9, 16});
  fmt::print("9x16 as {} is {} on a device\n", cleave::to_string(spec), cleave::to_string(local));
  return local == cleave::Shape{5, 4} ? 0 : 1;
}

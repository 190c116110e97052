#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>

namespace cleave {

// The members of an aggregate, as a tuple of references.
//
//   struct Layer { Tensor w; int heads; };
//   fields(layer)  ->  {layer.w, layer.heads}
//
// Members are counted by the number of empty braces that initialise the aggregate, so each must
// have a default value. kUnknownFields: one has none, or there are more than 24.
inline constexpr size_t kUnknownFields = static_cast<size_t>(-1);

template <typename T>
constexpr size_t count_fields() {
  if constexpr (std::is_empty_v<T>)
    return 0;
  else if constexpr (requires {
                       T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {},
                         {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
                     })
    return kUnknownFields;
  else if constexpr (requires {
                       T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {},
                         {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
                     })
    return 24;
  else if constexpr (requires {
                       T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {},
                         {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
                     })
    return 23;
  else if constexpr (requires {
                       T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {},
                         {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
                     })
    return 22;
  else if constexpr (requires {
                       T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {},
                         {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
                     })
    return 21;
  else if constexpr (requires {
                       T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {},
                         {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
                     })
    return 20;
  else if constexpr (requires {
                       T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {},
                         {}, {}, {}, {}, {}, {}, {}, {}, {}};
                     })
    return 19;
  else if constexpr (requires {
                       T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
                     })
    return 18;
  else if constexpr (requires {
                       T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
                     })
    return 17;
  else if constexpr (requires {
                       T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
                     })
    return 16;
  else if constexpr (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; })
    return 15;
  else if constexpr (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; })
    return 14;
  else if constexpr (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; })
    return 13;
  else if constexpr (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; })
    return 12;
  else if constexpr (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; })
    return 11;
  else if constexpr (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; })
    return 10;
  else if constexpr (requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}}; })
    return 9;
  else if constexpr (requires { T{{}, {}, {}, {}, {}, {}, {}, {}}; })
    return 8;
  else if constexpr (requires { T{{}, {}, {}, {}, {}, {}, {}}; })
    return 7;
  else if constexpr (requires { T{{}, {}, {}, {}, {}, {}}; })
    return 6;
  else if constexpr (requires { T{{}, {}, {}, {}, {}}; })
    return 5;
  else if constexpr (requires { T{{}, {}, {}, {}}; })
    return 4;
  else if constexpr (requires { T{{}, {}, {}}; })
    return 3;
  else if constexpr (requires { T{{}, {}}; })
    return 2;
  else if constexpr (requires { T{{}}; })
    return 1;
  else
    return kUnknownFields;
}

template <typename T>
auto fields(const T& t) {
  constexpr size_t n = count_fields<T>();
  static_assert(n != kUnknownFields);
  if constexpr (n == 0)
    return std::tuple<>();
  else if constexpr (n == 1) {
    const auto& [a] = t;
    return std::tie(a);
  } else if constexpr (n == 2) {
    const auto& [a, b] = t;
    return std::tie(a, b);
  } else if constexpr (n == 3) {
    const auto& [a, b, c] = t;
    return std::tie(a, b, c);
  } else if constexpr (n == 4) {
    const auto& [a, b, c, d] = t;
    return std::tie(a, b, c, d);
  } else if constexpr (n == 5) {
    const auto& [a, b, c, d, e] = t;
    return std::tie(a, b, c, d, e);
  } else if constexpr (n == 6) {
    const auto& [a, b, c, d, e, f] = t;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (n == 7) {
    const auto& [a, b, c, d, e, f, g] = t;
    return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (n == 8) {
    const auto& [a, b, c, d, e, f, g, h] = t;
    return std::tie(a, b, c, d, e, f, g, h);
  } else if constexpr (n == 9) {
    const auto& [a, b, c, d, e, f, g, h, i] = t;
    return std::tie(a, b, c, d, e, f, g, h, i);
  } else if constexpr (n == 10) {
    const auto& [a, b, c, d, e, f, g, h, i, j] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (n == 11) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (n == 12) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (n == 13) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m);
  } else if constexpr (n == 14) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, nn] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, nn);
  } else if constexpr (n == 15) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o);
  } else if constexpr (n == 16) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p);
  } else if constexpr (n == 17) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q);
  } else if constexpr (n == 18) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q, r] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q, r);
  } else if constexpr (n == 19) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q, r, s] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q, r, s);
  } else if constexpr (n == 20) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q, r, s, tt] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q, r, s, tt);
  } else if constexpr (n == 21) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q, r, s, tt, u] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q, r, s, tt, u);
  } else if constexpr (n == 22) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q, r, s, tt, u, v] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q, r, s, tt, u, v);
  } else if constexpr (n == 23) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q, r, s, tt, u, v, w] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q, r, s, tt, u, v, w);
  } else if constexpr (n == 24) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q, r, s, tt, u, v, w, x] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, nn, o, p, q, r, s, tt, u, v, w, x);
  }
}

}  // namespace cleave

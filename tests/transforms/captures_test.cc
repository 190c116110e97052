#include <gtest/gtest.h>

#include "cleave/tensors.h"
#include "cleave/transforms.h"

// What a transformed function writes to variables that it captured is seen by its caller, also
// where the compiler does not inline the transform.
namespace cleave {
namespace {

template <typename F>
[[gnu::noinline]] auto traced(F f) {
  return trace(std::move(f));
}

template <typename F>
[[gnu::noinline]] auto gradient(F f) {
  return grad(std::move(f));
}

Tensor loss(const Tensor& x) { return sum(square(x)); }

template <typename F, typename... Args>
[[gnu::noinline]] std::pair<int, Trace> runs_of_trace(const F& f, const std::tuple<Args...>& on) {
  int runs = 0;
  const auto counted = [&](const Args&... args) {
    ++runs;
    return f(args...);
  };
  Trace trace = std::apply([&](const Args&... args) { return traced(counted)(args...); }, on);
  return {runs, std::move(trace)};
}

template <typename F, typename... Args>
[[gnu::noinline]] std::pair<int, Tensor> runs_of_grad(const F& f, const std::tuple<Args...>& on) {
  int runs = 0;
  const auto counted = [&](const Args&... args) {
    ++runs;
    return f(args...);
  };
  Tensor slope = std::apply([&](const Args&... args) { return gradient(counted)(args...); }, on);
  return {runs, std::move(slope)};
}

TEST(Captures, WhatATracedFunctionWritesIsSeen) {
  EXPECT_GT(runs_of_trace(loss, std::tuple(ones({3}))).first, 0);
}

TEST(Captures, WhatAFunctionUnderGradWritesIsSeen) {
  EXPECT_GT(runs_of_grad(loss, std::tuple(ones({3}))).first, 0);
}

}  // namespace
}  // namespace cleave

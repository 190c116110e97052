#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_path.h"

// What can not be compared does not compile, and the compiler says why.
namespace {

std::string errors_of(const std::string& code) {
  const std::filesystem::path file = cleave::temp_path("call_key_refuses.cc");
  std::ofstream(file) << code;
  const std::string command =
      "c++ -std=c++20 -fsyntax-only -I" CLEAVE_SOURCE_DIR " " + file.string() + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof(buffer), pipe)) text.append(buffer, count);
  const int status = pclose(pipe);
  std::filesystem::remove(file);
  return status == 0 ? "compiles" : text;
}

TEST(CallKey, RefusesWhatCanNotBeCompared) {
  const std::string text = errors_of(R"(
#include "cleave/transforms/call_key.h"
using namespace cleave;
struct NotShown { Tensor w; };
class Opaque {
 public:
  Opaque(int a) : a_(a) {}
 private:
  int a_;
};
class HalfShown {
 public:
  HalfShown(int a) : a_(a) {}
  template <typename Visitor>
  void visit(Visitor&& v) { v("w", w_); }
 private:
  Tensor w_;
  int a_;
};
struct Reference { int& r; };
void f(int* pointer, Opaque opaque, HalfShown half, Reference reference, NotShown not_shown) {
  CallKey::of(pointer);
  CallKey::of(opaque);
  CallKey::of(half);
  CallKey::of(reference);
  CallKey::of(not_shown);
  CallKey::of([] { return 1; });
}
)");
  using testing::HasSubstr;
  EXPECT_THAT(text, HasSubstr("compile: a pointer says nothing about what it points to"));
  EXPECT_THAT(text, HasSubstr("can not be compared with that of another call"));
  EXPECT_THAT(text, HasSubstr("compile: this class shows its Tensors, and may hold other values"));
  EXPECT_THAT(text, HasSubstr("compile: the members of this struct can not be seen"));
  EXPECT_THAT(text, HasSubstr("compile: a Tensor stands where transforms do not find it"));
}

}  // namespace

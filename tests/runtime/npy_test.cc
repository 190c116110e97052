#include "cleave/runtime/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <fstream>

#include "cleave/core/error.h"
#include "cleave/kernels/array_text.h"
#include "cleave/runtime/fill.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_path.h"

namespace cleave {
namespace {

std::filesystem::path temporary(const char* name) { return temp_path(name); }

RC_GTEST_PROP(Npy, RoundTripsEveryDtype, ()) {
  const auto dtype = static_cast<DType>(*rc::gen::inRange(0, 15));
  const auto shape = *rc::gen::container<std::vector<int64_t>>(*rc::gen::inRange(0, 4),
                                                               rc::gen::inRange<int64_t>(0, 5));
  const Array array = make_array(Type::tensor(dtype, shape), "random:3");
  const auto path = temporary("round_trip.npy");
  save_npy(path, array);
  RC_ASSERT(identical(load_npy(path, dtype), array));
}

TEST(Npy, WritesWhatNumpyReads) {
  const auto path = temporary("header.npy");
  save_npy(path, Array::zeros(DType::F32, {3}));
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(text.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_THAT(text,
              testing::HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"));
  EXPECT_EQ((text.size() - 12) % 64, 0u);
}

TEST(Npy, ReadsColumnMajorFiles) {
  const auto path = temporary("fortran.npy");
  std::string header = "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }";
  header.resize(117, ' ');
  header += '\n';
  const int16_t columns[] = {0, 3, 1, 4, 2, 5};
  std::ofstream out(path, std::ios::binary);
  out << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(118) << '\0' << header;
  out.write(reinterpret_cast<const char*>(columns), sizeof columns);
  out.close();
  EXPECT_EQ(to_text(load_npy(path)), to_text(make_array(Type::tensor(DType::I16, {2, 3}), "iota")));
}

std::string failure(const std::filesystem::path& path) {
  return error_of([&] { load_npy(path); });
}

TEST(Npy, BadFilesAreNamed) {
  EXPECT_THAT(failure("no/such.npy"),
              testing::HasSubstr("cannot read 'no/such.npy': No such file"));
  const auto path = temporary("bad.npy");
  std::ofstream(path) << "something else entirely";
  EXPECT_THAT(failure(path), testing::HasSubstr("this is no .npy file"));
  save_npy(path, Array::zeros(DType::F64, {100}));
  std::filesystem::resize_file(path, 200);
  EXPECT_THAT(failure(path), testing::HasSubstr("of the 800 bytes"));
}

TEST(Npy, ShapesThatNoFileHoldsAreErrors) {
  const auto path = temporary("shape.npy");
  for (const char* shape :
       {"(9999999999999999,)", "(4294967296, 4294967296)", "(-4,)", "(99999999999999999999,)"}) {
    std::string header =
        fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}, }}", shape);
    header.resize(117, ' ');
    header += '\n';
    std::ofstream out(path, std::ios::binary);
    out << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(118) << '\0' << header;
    out.close();
    EXPECT_THAT(failure(path), testing::HasSubstr("shape")) << shape;
  }
}

TEST(Fill, SaysWhatItUnderstands) {
  const Type type = Type::tensor(DType::I32, {2});
  EXPECT_EQ(to_text(make_array(type, "iota")), "tensor<2xi32> {\n  [0, 1]\n}");
  EXPECT_EQ(to_text(make_array(Type::tensor(DType::C64, {1}), "ones")),
            "tensor<1xcomplex<f32>> {\n  [[1.000000e+00, 0.000000e+00]]\n}");
  EXPECT_TRUE(identical(make_array(type, "random:5"), make_array(type, "random:5")));
  EXPECT_THROW(make_array(type, "random:x"), UserError);
  EXPECT_THROW(make_array(type, "fives"), UserError);
}

TEST(ArrayText, FloatsReadBack) {
  EXPECT_EQ(to_text(Array::scalar<float>(DType::F32, 0.1f)), "tensor<f32> {1.000000e-01}");
  EXPECT_EQ(to_text(Array::scalar<float>(DType::F32, 1.0f / 3)), "tensor<f32> {3.3333334e-01}");
  EXPECT_EQ(to_text(Array::zeros(DType::I8, {2, 0})),
            "tensor<2x0xi8> {\n  [\n    [],\n    []\n  ]\n}");
  EXPECT_EQ(to_text(make_array(Type::tensor(DType::I32, {9}), "iota"), 4),
            "tensor<9xi32> {\n  [0, 1, ..., 7, 8]\n}");
}

}  // namespace
}  // namespace cleave

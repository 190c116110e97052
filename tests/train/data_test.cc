#include "cleave/train/data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <set>

#include "cleave/core/error.h"
#include "cleave/core/output_file.h"
#include "cleave/runtime/npy.h"
#include "cleave/runtime/ops_sharding.h"
#include "cleave/train/prefetch.h"
#include "tests/support/error_of.h"

// Batches of tokens: files of every kind, the order of samples, parts of devices, and the thread
// that reads ahead.
namespace cleave::train {
namespace {

using ::testing::HasSubstr;

class Data : public testing::Test {
 protected:
  Data()
      : folder_(std::filesystem::temp_directory_path() /
                ("cleave-data-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Data() override { std::filesystem::remove_all(folder_); }

  template <typename T>
  std::string file(const std::string& name, const std::vector<T>& values) const {
    const std::string path = (folder_ / name).string();
    write_file(path, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
    return path;
  }
  std::string counting(const std::string& name, int count) const {
    std::vector<uint16_t> values(static_cast<size_t>(count));
    std::iota(values.begin(), values.end(), 0);
    return file(name, values);
  }
  std::vector<int32_t> all_of(const std::string& name) const {
    const TokenFile tokens(name);
    std::vector<int32_t> out(static_cast<size_t>(tokens.size()));
    tokens.read(0, out, 1LL << 31);
    return out;
  }
  std::string safetensors(const std::string& header, const std::vector<int32_t>& values) const {
    const uint64_t length = header.size();
    std::string text(reinterpret_cast<const char*>(&length), 8);
    text += header;
    text.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    const std::string path = (folder_ / "t.safetensors").string();
    write_file(path, text);
    return path;
  }

  const std::filesystem::path folder_;
};

TEST_F(Data, FilesOfEveryKindHoldTheSameTokens) {
  const std::vector<int32_t> expected{3, 1, 4, 1, 5, 9};
  EXPECT_EQ(all_of(file<uint16_t>("a.bin", {3, 1, 4, 1, 5, 9})), expected);
  EXPECT_EQ(all_of(file<uint32_t>("a.u32", {3, 1, 4, 1, 5, 9})), expected);
  EXPECT_EQ(all_of(file<uint8_t>("a.txt", {3, 1, 4, 1, 5, 9})), expected);
  EXPECT_EQ(all_of("u32:" + file<uint32_t>("b.bin", {3, 1, 4, 1, 5, 9})), expected);
  EXPECT_EQ(all_of("i64:" + file<int64_t>("c.bin", {3, 1, 4, 1, 5, 9})), expected);
  const std::string npy = (folder_ / "a.npy").string();
  save_npy(npy, Array::from_bytes(DType::I32, {2, 3}, expected.data()));
  EXPECT_EQ(all_of(npy), expected);
  const std::string path = safetensors(
      R"({"x":{"dtype":"I32","shape":[6],"data_offsets":[4,28]},"y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      {0, 3, 1, 4, 1, 5, 9});
  EXPECT_EQ(all_of(path), expected);
  EXPECT_EQ(all_of(path + "#x"), expected);
}

TEST_F(Data, WrongFilesAreNamedOnOneLine) {
  const auto error = [](const std::string& name) {
    return error_of([&] { TokenFile file(name); });
  };
  EXPECT_THAT(error((folder_ / "none.bin").string()), HasSubstr("No such file"));
  EXPECT_THAT(error(file<uint8_t>("empty.txt", {})), HasSubstr("is empty; tokens were expected"));
  EXPECT_THAT(error(file<uint8_t>("odd.bin", {1, 2, 3})),
              HasSubstr("has 3 bytes, no whole number of tokens of 2 bytes each"));
  EXPECT_THAT(error(file<uint8_t>("no.npy", {1, 2, 3})), HasSubstr("is no .npy file"));
  EXPECT_THAT(error(file<uint8_t>("no.safetensors", {255, 2, 3, 0, 0, 0, 0, 0, 1})),
              HasSubstr("is no safetensors file"));
  const std::string path =
      safetensors(R"({"x":{"dtype":"I32","shape":[6],"data_offsets":[0,400]}})", {1});
  EXPECT_THAT(error(path), HasSubstr("offsets of 'x' are not inside"));
  EXPECT_THAT(error(path + "#z"), HasSubstr("no tensor of integers called 'z'; there are x"));
  const std::string short_file = counting("short.bin", 7);
  EXPECT_THAT(error_of([&] { open_dataset({short_file}, {.length = 8}); }),
              HasSubstr("has 7 tokens, and a sample takes 8"));
  EXPECT_THAT(error_of([&] { open_dataset({short_file}, {.length = 7, .begin = 0.5}); }),
              HasSubstr("has no sample of 7 tokens"));
  const Dataset data = open_dataset({short_file}, {.length = 7, .vocab = 5});
  EXPECT_THAT(error_of([&] { Batches(data, {.batch = 2}); }),
              HasSubstr("there are 1 samples of 7 tokens, fewer than a batch of 2"));
  EXPECT_THAT(error_of([&] { Batches(data, {.batch = 1}).read(0); }),
              HasSubstr("token 5 at 5 is not one of the model's vocabulary of 5"));
}

TEST(Permutation, IsOneForEverySizeAndDiffersByKey) {
  for (int64_t size : {1, 2, 3, 4, 5, 17, 64, 65, 1000, 4097}) {
    std::set<int64_t> seen;
    int64_t same = 0;
    for (int64_t i = 0; i < size; ++i) {
      seen.insert(Permutation(size, 1).at(i));
      same += Permutation(size, 1).at(i) == Permutation(size, 2).at(i);
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(size));
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), size - 1);
    // Two random orders agree at one place on average.
    EXPECT_LT(same, size >= 64 ? 8 : size + 1);
  }
  // Numbers go everywhere: every eighth of the results is reached by every eighth of the numbers
  // about equally often.
  std::vector<int> counts(64);
  for (int64_t i = 0; i < 8000; ++i)
    ++counts[static_cast<size_t>(i / 1000 * 8 + Permutation(8000, 7).at(i) / 1000)];
  for (int count : counts) EXPECT_NEAR(count, 125, 50);
}

TEST_F(Data, EveryEpochHasEverySampleOnce) {
  const Dataset data =
      open_dataset({counting("a.bin", 103), counting("b.bin", 60)}, {.length = 10});
  ASSERT_EQ(data.num_samples(), 16);
  const Batches batches(data, {.batch = 4, .seed = 3});
  EXPECT_EQ(batches.per_epoch(), 4);
  std::vector<std::vector<int64_t>> epochs(3);
  for (int64_t step = 0; step < 12; ++step)
    for (int64_t row = 0; row < 4; ++row)
      epochs[static_cast<size_t>(batches.epoch_of(step))].push_back(batches.sample(step, row));
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  for (const auto& epoch : epochs) EXPECT_EQ(std::set(epoch.begin(), epoch.end()).size(), 16u);
  // Batch 7 is what its number says, whatever was read before.
  const Batches again(data, {.batch = 4, .seed = 3});
  EXPECT_TRUE(identical(again.read(7), batches.read(7)));
  EXPECT_FALSE(identical(Batches(data, {.batch = 4, .seed = 4}).read(7), batches.read(7)));
}

TEST_F(Data, PartsOfAFileHaveNothingInCommon) {
  const std::string path = counting("a.bin", 100);
  std::set<int32_t> seen;
  size_t count = 0;
  for (const auto& [begin, end] : {std::pair{0.0, 0.75}, {0.75, 1.0}}) {
    const Dataset data = open_dataset({path}, {.length = 5, .begin = begin, .end = end});
    const Batches batches(data, {.batch = 1, .shuffle = false});
    for (int64_t step = 0; step < batches.per_epoch(); ++step) {
      const Array batch = batches.read(step);
      seen.insert(batch.data<int32_t>(), batch.data<int32_t>() + 5);
      count += 5;
    }
  }
  EXPECT_EQ(count, 100u);
  EXPECT_EQ(seen.size(), 100u);
}

TEST_F(Data, SamplesMayShareTheirLastTokenWithTheNext) {
  const Dataset data = open_dataset({counting("a.bin", 21)}, {.length = 10, .extra = 1});
  ASSERT_EQ(data.num_samples(), 2);
  const Array batch = Batches(data, {.batch = 2, .shuffle = false}).read(0);
  EXPECT_EQ(batch.shape(), (Shape{2, 11}));
  EXPECT_EQ(batch.data<int32_t>()[10], 10);
  EXPECT_EQ(batch.data<int32_t>()[11], 10);
  EXPECT_EQ(batch.data<int32_t>()[21], 20);
}

TEST_F(Data, ADeviceGetsItsPartOfTheBatch) {
  const Dataset data = open_dataset({counting("a.bin", 400)}, {.length = 10});
  const Batches batches(data, {.batch = 6, .seed = 1});
  const auto mesh = shared_mesh(Mesh{{"data", 4}, {"model", 2}});
  const Array whole = batches.read(3);
  for (const PartitionSpec& spec : {P("data", {}), P({}, "model"), P("data", "model"), P()}) {
    const Tensor tensor = batches.tensor(3, to_sharding(spec, mesh, batches.shape()));
    EXPECT_TRUE(identical(tensor.to_host(), whole));
    for (const TensorShard& shard : tensor.addressable_shards())
      EXPECT_TRUE(identical(shard.data.contiguous(),
                            whole.slice(shard.index.offset, shard.index.size).contiguous()));
  }
}

TEST(Prefetch, GivesItemsInOrder) {
  Prefetch<int64_t> items([](int64_t n) { return n * n; }, 5);
  for (int64_t n = 5; n < 100; ++n) EXPECT_EQ(items.next(), n * n);
  EXPECT_EQ(items.position(), 100);
}

TEST(Prefetch, IsNeverFurtherAheadThanItMay) {
  std::atomic<int64_t> made = 0;
  {
    Prefetch<int64_t> items([&](int64_t n) { return made++, n; }, 0, 3);
    for (int64_t n = 0; n < 50; ++n) {
      items.next();
      EXPECT_LE(made, n + 1 + 4);  // three are ready, and one is being made
    }
  }
  const int64_t after = made;
  EXPECT_LE(after, 54);  // the thread has ended with the object
}

TEST(Prefetch, BringsAnExceptionAfterTheItemsBefore) {
  Prefetch<int64_t> items(
      [](int64_t n) {
        if (n == 3) throw_user("no item {}", n);
        return n;
      },
      0);
  for (int64_t n = 0; n < 3; ++n) EXPECT_EQ(items.next(), n);
  EXPECT_THAT(error_of([&] { items.next(); }), HasSubstr("no item 3"));
  EXPECT_THAT(error_of([&] { items.next(); }), HasSubstr("no item 3"));
}

}  // namespace
}  // namespace cleave::train

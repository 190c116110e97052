// Ranks on two machines: two network namespaces with host names that nobody can resolve, and a link
// between them that can be cut. Needs root and iproute2; skipped where there is neither.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "tests/mpi/launch_shell.h"

namespace cleave {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Outcome;

const std::string kCommand = CLEAVE_COMMAND;

bool succeeds(const std::string& line) {
  return std::system((line + " >/dev/null 2>&1").c_str()) == 0;
}

class LaunchOnHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string id = std::to_string(getpid());
    a_ = "cla" + id;
    b_ = "clb" + id;
    if (geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
    if (!succeeds("unshare -u true") || !succeeds("ip netns add " + a_) ||
        !succeeds("ip netns add " + b_) ||
        !succeeds("ip link add v0 netns " + a_ + " type veth peer name v0 netns " + b_))
      GTEST_SKIP() << "this machine has no network namespaces (ip netns, veth, unshare)";
    for (const auto& [host, number] : {std::pair{a_, "10.213.77.1/24"}, {b_, "10.213.77.2/24"}})
      ASSERT_TRUE(succeeds("ip -n " + host + " addr add " + number + " dev v0") &&
                  succeeds("ip -n " + host + " link set lo up") &&
                  succeeds("ip -n " + host + " link set v0 up"));
    const std::string enter =
        "exec ip netns exec $host unshare -u /bin/bash -c \"hostname $host; $*\"";
    agent_ = testing::write_script("agent.sh", "host=$1; shift; " + enter);
    start_ = testing::write_script("start.sh", "host=" + a_ + "; " + enter);
    hosts_ = testing::write_temp("hosts", a_ + " slots=1\n" + b_ + " slots=1\n");
    // A directory of users is no part of the test.
    if (!succeeds(start_ + " true")) GTEST_SKIP() << "programs cannot run in a namespace here";
  }
  void TearDown() override {
    for (const std::string& host : {a_, b_}) {
      succeeds("ip netns pids " + host + " | xargs -r kill -9");
      succeeds("ip netns del " + host);
    }
  }

  // Two ranks, one on each machine.
  std::string launch(const std::string& settings, const std::string& arguments) const {
    return start_ + " env " + settings + " " + kCommand + " launch -n 2 --hostfile " + hosts_ +
           " --mpirun=--mca --mpirun=plm_rsh_agent --mpirun=" + agent_ + " -- " + kCommand + " " +
           arguments;
  }

  std::string a_, b_, agent_, start_, hosts_;
};

TEST_F(LaunchOnHosts, HostsNeedNotKnowEachOthersNames) {
  const std::string run =
      "run " + std::string(CLEAVE_TEST_DIR) +
      "/programs/matmul.mlir --arg 0=random:1 --arg 1=random:2 --arg 2=random:3 "
      "--mesh x=4 --shard random:5";
  const Outcome alone = testing::shell(kCommand + " " + run);
  const Outcome ranks = testing::shell(launch("CLEAVE_JOIN_TIMEOUT=30", run));
  EXPECT_EQ(ranks.status, 0) << ranks.err;
  EXPECT_EQ(ranks.out, alone.out);
}

TEST_F(LaunchOnHosts, ALinkThatIsCutEndsTheRanksAndSaysWhy) {
  const std::string file = testing::write_temp("endless.mlir", R"(
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<12xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.while(%s = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare EQ, %s, %s : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %sum = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<12xi32>, tensor<i32>) -> tensor<i32>
      %t = stablehlo.add %s, %sum : tensor<i32>
      stablehlo.return %t : tensor<i32>
    }
  return %r : tensor<i32>
})");
  const std::string log = testing::temp_file("trace");
  Outcome outcome{};
  std::thread launcher([&] {
    outcome = testing::shell(launch("CLEAVE_RANK_TIMEOUT=3", "run " + file +
                                                                 " --arg 0=iota --shard "
                                                                 "annotations --trace") +
                             " 2>" + log + " #");
  });
  // The loop runs on both machines.
  const auto both_run = [&] {
    const std::string text = testing::read_file(log);
    return text.find("device 0 ") != std::string::npos &&
           text.find("device 1 ") != std::string::npos;
  };
  for (int i = 0; i < 1200 && !both_run(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(succeeds("ip -n " + a_ + " link set v0 down"));
  launcher.join();
  const std::string text = testing::read_file(log);
  const std::string end = text.substr(text.size() - std::min<size_t>(text.size(), 2000));
  EXPECT_EQ(outcome.status, 1) << end;
  EXPECT_THAT(end, AllOf(HasSubstr("waits in all_reduce \"x\" for stablehlo.add"),
                         HasSubstr("has died: nothing has been heard from it for 3 s")));
}

}  // namespace
}  // namespace cleave

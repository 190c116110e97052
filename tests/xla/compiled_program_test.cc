#include "cleave/xla/compiled_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/xla/hlo_text.h"

namespace cleave::xla {
namespace {

using testing::HasSubstr;

TEST(HloTypes, BytesOfArrays) {
  using Bytes = std::vector<int64_t>;
  EXPECT_EQ(array_bytes("f32[4,8]{1,0}"), Bytes{128});
  EXPECT_EQ(array_bytes("(f32[4,8]{1,0:T(8,128)(2,1)S(1)}, /*index=1*/s4[3], token[], pred[5])"),
            (Bytes{128, 2, 0, 5}));
  EXPECT_EQ(array_bytes("f32[]"), Bytes{4});
  EXPECT_EQ(array_bytes("((bf16[2]), f8e4m3fn[3], c128[], u16[2,0])"), (Bytes{4, 3, 16, 0}));
  EXPECT_EQ(array_bytes("s32[<=10]{0}"), Bytes{40});
  EXPECT_THROW(array_bytes("f33[2]"), UserError);
  EXPECT_THROW(array_bytes("string[2]"), UserError);
  EXPECT_THROW(array_bytes("f32[99999999999,99999999999]"), UserError);
}

TEST(HloText, AttributesEndAtCommasOutsideOfBrackets) {
  const char* text =
      R"(, channel_id=1, to_apply=%add.1, metadata={op_name="a, to_apply=%b" x=1}, body=%c)";
  EXPECT_EQ(attribute(text, "to_apply"), "%add.1");
  EXPECT_EQ(attribute(text, "body"), "%c");
  EXPECT_EQ(attribute(text, "x"), "");
}

constexpr const char* kAdd = R"(
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
)";

std::string module_of(const std::string& body, const std::string& before = "") {
  return "HloModule m, is_scheduled=true, num_partitions=8\n" + before + kAdd +
         "\nENTRY %main (p: f32[32,8]) -> f32[32,8] {\n  %p = f32[32,8]{1,0} parameter(0)\n" +
         body + "\n}\n";
}

const CompiledCollective& only(const CompiledProgram& program) {
  EXPECT_EQ(program.collectives.size(), 1u);
  return program.collectives.at(0);
}

CompiledProgram with(const std::string& instruction) {
  return read_compiled(module_of(instruction));
}

// 1024 bytes of %p.
TEST(Collectives, BytesReceived) {
  EXPECT_EQ(
      only(with("  ROOT %c = f32[32,8] all-reduce(%p), channel_id=1, "
                "replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true, to_apply=%add"))
          .received_bytes,
      1536);
  EXPECT_EQ(
      only(with("  ROOT %c = f32[128,8] all-gather(%p), channel_id=1, replica_groups=[2,4]<=[8], "
                "dimensions={0}, use_global_device_ids=true"))
          .received_bytes,
      3072);
  EXPECT_EQ(only(with("  ROOT %c = f32[8,8] reduce-scatter(%p), channel_id=1, "
                      "replica_groups=mesh['a'=2,'b'=4] {'b'}, dimensions={0}, "
                      "use_global_device_ids=true, to_apply=%add"))
                .received_bytes,
            768);
  EXPECT_EQ(
      only(with("  ROOT %c = f32[32,8] all-to-all(%p), channel_id=1, replica_groups={{0,1},{2,3},"
                "{4,5},{6,7}}, dimensions={0}"))
          .received_bytes,
      512);
  EXPECT_EQ(only(with("  ROOT %c = f32[32,8] collective-permute(%p), channel_id=1, "
                      "source_target_pairs={{0,1},{1,0}}"))
                .received_bytes,
            1024);
  EXPECT_EQ(only(with("  ROOT %c = f32[32,8] collective-permute(%p), channel_id=1, "
                      "source_target_pairs={{0,0},{1,1}}"))
                .received_bytes,
            0);
  EXPECT_EQ(only(with("  ROOT %c = f32[32,8] collective-broadcast(%p), channel_id=1, "
                      "replica_groups={{0,1,2,3,4,5,6,7}}"))
                .received_bytes,
            1024);
  const CompiledProgram ragged = with(
      "  %o = f32[64,8] broadcast(%p), dimensions={}\n  %t = s32[8] constant({0,1,2,3,4,5,6,7})\n"
      "  ROOT %c = f32[64,8] ragged-all-to-all(%p, %o, %t, %t, %t, /*index=5*/%t), channel_id=1, "
      "replica_groups={{0,1,2,3,4,5,6,7}}");
  EXPECT_EQ(only(ragged).received_bytes, 2048);
  EXPECT_TRUE(only(ragged).is_at_most);
}

TEST(Collectives, AsynchronousFormsCountOnce) {
  const CompiledProgram gather = with(
      "  %s = (f32[32,8], f32[64,8]) all-gather-start(f32[32,8]{1,0} %p), channel_id=1, "
      "replica_groups={{0,1},{2,3},{4,5},{6,7}}, dimensions={0}, use_global_device_ids=true\n"
      "  ROOT %d = f32[64,8] all-gather-done(%s)");
  EXPECT_EQ(only(gather).received_bytes, 1024);
  EXPECT_TRUE(only(gather).is_async);
  const CompiledProgram wrapped = read_compiled(module_of(
      "  %s = ((f32[32,8]), f32[16,8], u32[]) async-start(%p), calls=%wrapped\n"
      "  %u = ((f32[32,8]), f32[16,8], u32[]) async-update(%s), calls=%wrapped\n"
      "  ROOT %d = f32[16,8] async-done(%u), calls=%wrapped",
      "%wrapped (q: f32[32,8]) -> f32[16,8] {\n  %q = f32[32,8] parameter(0)\n"
      "  ROOT %r = f32[16,8] reduce-scatter(%q), channel_id=1, "
      "replica_groups={{0,1},{2,3},{4,5},{6,7}}, "
      "dimensions={0}, use_global_device_ids=true, to_apply=%add\n}, execution_thread=\"main\"\n"));
  EXPECT_EQ(only(wrapped).kind, "reduce-scatter");
  EXPECT_EQ(only(wrapped).received_bytes, 512);
  EXPECT_EQ(only(wrapped).executions, 1);
  EXPECT_TRUE(only(wrapped).is_async);
  // Cut into a pair by XLA for GPUs; transfers to the host are not between devices.
  const CompiledProgram pair = with(
      "  %t = token[] after-all()\n"
      "  %r = (f32[32,8], u32[], token[]) recv(%t), channel_id=1, frontend_attributes={"
      "_xla_send_recv_source_target_pairs=\"{{0,1},{1,2}}\"}\n"
      "  %h = (f32[32,8], u32[], token[]) recv(%t), channel_id=2, is_host_transfer=true\n"
      "  %s = (f32[32,8], u32[], token[]) send(%p, %t), channel_id=1\n"
      "  %e = (f32[32,8], token[]) recv-done(%r), channel_id=1\n"
      "  ROOT %x = f32[32,8] get-tuple-element(%e), index=0");
  EXPECT_EQ(only(pair).kind, "send-recv");
  EXPECT_EQ(only(pair).pairs, (DevicePairs{{0, 1}, {1, 2}}));
  EXPECT_EQ(only(pair).received_bytes, 1024);
}

std::string two_by_four(const std::string& attributes) {
  return std::string("HloModule m, replica_count=2, num_partitions=4\n") + kAdd +
         "ENTRY %main (p: f32[32,8]) -> f32[32,8] {\n  %p = f32[32,8]{1,0} parameter(0)\n"
         "  ROOT %c = f32[32,8] all-reduce(%p), to_apply=%add" +
         attributes + "\n}\n";
}

// Numbers of groups are replicas, replicas with all their partitions, or devices.
TEST(Collectives, GroupsOfReplicasAndPartitions) {
  const auto groups = [](const std::string& attributes) {
    return only(read_compiled(two_by_four(attributes))).groups;
  };
  EXPECT_EQ(groups(", replica_groups={{0,1}}"), (DeviceGroups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups(", replica_groups={}"), (DeviceGroups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups(", channel_id=1, replica_groups={{0},{1}}"),
            (DeviceGroups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(groups(", channel_id=1, replica_groups={{0,5},{1,4}}, use_global_device_ids=true"),
            (DeviceGroups{{0, 5}, {1, 4}}));
  EXPECT_EQ(groups(", channel_id=1, replica_groups={{0,1},{2,3}}, mode=cross_partition"),
            (DeviceGroups{{0, 1}, {4, 5}, {2, 3}, {6, 7}}));
}

constexpr const char* kLoops = R"(
%inner (t: (s32[], f32[32,8])) -> (s32[], f32[32,8]) {
  %t = (s32[], f32[32,8]) parameter(0)
  %x = f32[32,8] get-tuple-element(%t), index=1
  %n = s32[] get-tuple-element(%t), index=0
  %c = f32[32,8] collective-permute(%x), channel_id=1, source_target_pairs={{0,1},{1,0}}
  ROOT %r = (s32[], f32[32,8]) tuple(%n, %c)
}
%asks (t.1: (s32[], f32[32,8])) -> pred[] {
  %t.1 = (s32[], f32[32,8]) parameter(0)
  %x.1 = f32[32,8] get-tuple-element(%t.1), index=1
  %ar = f32[32,8] all-reduce(%x.1), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, to_apply=%add
  ROOT %yes = pred[] constant(true)
}
%outer (t.2: (s32[], f32[32,8])) -> (s32[], f32[32,8]) {
  %t.2 = (s32[], f32[32,8]) parameter(0)
  ROOT %w = (s32[], f32[32,8]) while(%t.2), condition=%asks, body=%inner, backend_config={"known_trip_count":{"n":"3"}}
}
%never (t.3: (s32[], f32[32,8])) -> pred[] {
  %t.3 = (s32[], f32[32,8]) parameter(0)
  ROOT %no = pred[] constant(false)
}
)";

TEST(Collectives, NestedLoopsMultiply) {
  const auto body = [](const char* config) {
    return std::string(
               "  %z = s32[] constant(0)\n  %t.4 = (s32[], f32[32,8]) tuple(%z, %p)\n"
               "  %w.1 = (s32[], f32[32,8]) while(%t.4), condition=%never, body=%outer") +
           config + "\n  ROOT %q = f32[32,8] get-tuple-element(%w.1), index=1";
  };
  // Quoted, as older versions print it.
  const CompiledProgram program = read_compiled(
      module_of(body(R"(, backend_config="{\"known_trip_count\":{\"n\":\"5\"}}")"), kLoops));
  ASSERT_EQ(program.collectives.size(), 2u);
  EXPECT_EQ(program.collectives[0].executions, 15);
  EXPECT_EQ(program.collectives[1].executions, 20);  // a condition is asked once more
  EXPECT_EQ(program.received_bytes(), 15 * 1024 + 20 * 1792);
  EXPECT_TRUE(program.unknown_loops.empty());
  CompiledOptions options;
  options.trips = 7;
  const CompiledProgram unknown = read_compiled(module_of(body(""), kLoops), options);
  EXPECT_EQ(unknown.collectives[0].executions, 21);
  EXPECT_FALSE(unknown.collectives[0].has_known_trips);
  EXPECT_EQ(unknown.unknown_loops, std::vector<std::string>{"w.1"});
}

TEST(Collectives, OfBranchesTheDearestCounts) {
  const std::string branches =
      "%small (x: f32[32,8]) -> f32[32,8] {\n  %x = f32[32,8] parameter(0)\n"
      "  ROOT %c.0 = f32[32,8] collective-permute(%x), channel_id=1, "
      "source_target_pairs={{0,1}}\n}\n"
      "%large (y: f32[32,8]) -> f32[32,8] {\n  %y = f32[32,8] parameter(0)\n"
      "  ROOT %c.1 = f32[32,8] all-reduce(%y), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, "
      "use_global_device_ids=true, to_apply=%add\n}\n";
  const std::string listed =
      "  %i = s32[] constant(0)\n"
      "  ROOT %k = f32[32,8] conditional(%i, %p, %p), branch_computations={%small, %large}";
  const std::string named =
      "  %i = pred[] constant(true)\n"
      "  ROOT %k = f32[32,8] conditional(%i, %p, %p), true_computation=%small, "
      "false_computation=%large";
  for (const std::string& body : {listed, named}) {
    const CompiledProgram program = read_compiled(module_of(body, branches));
    ASSERT_EQ(program.collectives.size(), 2u);
    EXPECT_EQ(program.collectives[0].executions, 1);
    EXPECT_EQ(program.collectives[0].counted, 0);
    EXPECT_EQ(program.collectives[1].counted, 1);
    EXPECT_TRUE(program.collectives[0].in_branch && program.collectives[1].in_branch);
    EXPECT_EQ(program.received_bytes(), 1792);
  }
}

// Sixty calls deep, two each: every computation is visited once.
TEST(Collectives, SharedCallsDoNotMultiplyWork) {
  std::string before =
      "%f0 (x: f32[32,8]) -> f32[32,8] {\n  %x = f32[32,8] parameter(0)\n"
      "  ROOT %c.0 = f32[32,8] collective-permute(%x), channel_id=1, "
      "source_target_pairs={{0,1}}\n}\n";
  for (int i = 1; i <= 40; ++i)
    before +=
        "%f" + std::to_string(i) +
        " (x: f32[32,8]) -> f32[32,8] {\n  %x = f32[32,8] parameter(0)\n  %a = f32[32,8] call(%x), "
        "to_apply=%f" +
        std::to_string(i - 1) + "\n  ROOT %b = f32[32,8] call(%a), to_apply=%f" +
        std::to_string(i - 1) + "\n}\n";
  const CompiledProgram program =
      read_compiled(module_of("  ROOT %k = f32[32,8] call(%p), to_apply=%f40", before));
  EXPECT_EQ(only(program).executions, static_cast<double>(int64_t{1} << 40));
}

TEST(Memory, OfArgumentsAndResults) {
  const std::string text =
      "HloModule m, is_scheduled=true, input_output_alias={ {1}: (0, {}, may-alias) }, "
      "entry_computation_layout={(f32[32,8]{1,0}, s32[3]{0})->(s32[3]{0}, f32[32,8]{1,0})}\n\n"
      "ENTRY main {\n  p = f32[32,8]{1,0} parameter(0)\n  q = s32[3]{0} parameter(1)\n"
      "  ROOT t = (s32[3]{0}, f32[32,8]{1,0}) tuple(q, p)\n}\n";
  CompiledOptions options;
  options.temporaries = 100;
  const CompiledMemory memory = read_compiled(text, options).memory;
  EXPECT_EQ(memory.arguments, 1036);
  EXPECT_EQ(memory.results, 1036);
  EXPECT_EQ(memory.aliased, 1024);
  EXPECT_EQ(memory.total(), 1036 + 1036 - 1024 + 100);
}

TEST(Collectives, AreATable) {
  const CompiledProgram program = with(
      "  %c = f32[32,8] all-reduce(%p), channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, "
      "use_global_device_ids=true, to_apply=%add, metadata={op_name=\"jit(f)/dot\"}\n"
      "  ROOT %d = f32[32,8] collective-permute(%c), channel_id=1, "
      "source_target_pairs={{0,1},{1,0}}");
  EXPECT_EQ(to_string(program), R"(m: 8 devices
collective             executions     received  over
all-reduce                      1      1.5 KiB  2 groups of 4: {0,1,2,3}, ...
collective-permute              1      1.0 KiB  by pairs
all                                    2.5 KiB
dearest:
       1.5 KiB  x1      all-reduce c  jit(f)/dot
       1.0 KiB  x1      collective-permute d
memory of a device: 1.0 KiB arguments, 1.0 KiB results
)");
}

std::string error_of(const std::string& text) {
  try {
    read_compiled(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(CompiledErrors, SayWhatIsWrong) {
  EXPECT_THAT(error_of(""), HasSubstr("there is no text"));
  EXPECT_THAT(error_of("\n\n"), HasSubstr("there is no text"));
  EXPECT_THAT(error_of("hello\n"), HasSubstr("line 1: this is not HLO text"));
  EXPECT_THAT(error_of("module @m {\n  func.func @main() {\n"),
              HasSubstr("take compiled.as_text()"));
  EXPECT_THAT(error_of("HloModule m\n"), HasSubstr("has no computations"));
  EXPECT_THAT(error_of("HloModule m\n\n%f () -> f32[] {\n  ROOT %c = f32[] constant(1)\n}\n"),
              HasSubstr("no ENTRY"));
  EXPECT_THAT(error_of("HloModule m\nfoo\n"), HasSubstr("line 2: a computation was expected: foo"));
  EXPECT_THAT(error_of("HloModule m, num_partitions=0\n"), HasSubstr("num_partitions=0"));
  EXPECT_THAT(error_of("HloModule m\nHloModule m\n"), HasSubstr("a second HloModule"));
  const std::string whole = module_of("  ROOT %c = f32[32,8] all-reduce(%p), to_apply=%add");
  EXPECT_THAT(error_of(whole.substr(0, whole.size() - 3)),
              HasSubstr("ends inside computation %main"));
  EXPECT_THAT(error_of(module_of("  ROOT %c = f32[32,8] call(%p), to_apply=%missing")),
              HasSubstr("calls %missing, which the text does not have"));
  EXPECT_THAT(error_of(module_of("  ROOT %c = f32[32,8] all-reduce(%missing), to_apply=%add")),
              HasSubstr("takes %missing, which is not defined before it"));
  EXPECT_THAT(
      error_of(module_of("  ROOT %c = f32[32,8] all-reduce(%p), channel_id=1, "
                         "replica_groups={{0,9}}, use_global_device_ids=true, to_apply=%add")),
      HasSubstr("names device 9, and there are 8; --devices"));
  EXPECT_THAT(error_of(module_of("  ROOT %c = f32[32,8] call(%p), to_apply=%main")),
              HasSubstr("calls itself"));
  EXPECT_THAT(error_of(module_of("  ROOT %c = f32[32,8] while(%p), body=%add")),
              HasSubstr("no body or no condition"));
  EXPECT_THAT(error_of(module_of("  %c = f32[32,8] nonsense")),
              HasSubstr("an instruction was expected"));
}

// As in dumps of a module before it is partitioned, and in what people write: the header says
// nothing of devices, so that the groups do.
TEST(Devices, AreThoseOfTheGroupsIfTheHeaderIsSilent) {
  const auto read = [](const std::string& body, std::optional<int64_t> devices = std::nullopt) {
    const std::string text = std::string("HloModule m\n") + kAdd +
                             "\nENTRY %main (p: f32[32,8]) -> f32[32,8] {\n"
                             "  %p = f32[32,8]{1,0} parameter(0)\n" +
                             body + "\n}\n";
    CompiledOptions options;
    options.devices = devices;
    return read_compiled(text, options);
  };
  const char* reduce =
      "  ROOT %c = f32[32,8] all-reduce(%p), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%add";
  for (const std::optional<int64_t> devices :
       {std::optional<int64_t>{}, std::optional<int64_t>{8}}) {
    const CompiledProgram program = read(reduce, devices);
    EXPECT_EQ(program.devices(), 8);
    EXPECT_EQ(only(program).groups, (DeviceGroups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
    EXPECT_EQ(only(program).received_bytes, 1536);
  }
  const CompiledProgram moved =
      read("  ROOT %c = f32[32,8] collective-permute(%p), source_target_pairs={{0,1},{1,3}}");
  EXPECT_EQ(moved.devices(), 4);
  EXPECT_EQ(only(moved).pairs, (DevicePairs{{0, 1}, {1, 3}}));
  EXPECT_EQ(read("  ROOT %c = f32[32,8] all-reduce(%p), channel_id=1, replica_groups={{0}}, "
                 "to_apply=%add",
                 8)
                .received_bytes(),
            1792);  // one replica, of all partitions
}

// XLA's own tests have these spellings.
TEST(HloText, CommentsAndHeadersOfSeveralLines) {
  const CompiledProgram program = read_compiled(R"(
HloModule m, num_partitions=2, origin_recovery_table={
  {"original"} : {"__ovp_1"},
  "
    ENTRY %recovery (p: f32[8]) -> f32[8] {
      %p = f32[8]{0} parameter(0)
      ROOT %ag = f32[16]{0} all-gather(%p), dimensions={0}
    }
  "
  },
  input_output_alias={ {}: (0, {}, may-alias) }
// The sum (of two.
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  // it's the "second
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
ENTRY %main (p: f32[32,8]) -> f32[32,8] {
  %p = f32[32,8]{1,0} parameter(0)
  %c = f32[32,8] call(%p), to_apply=%inner
  // Twice, {
  ROOT %d = f32[32,8] all-reduce(  // all of it
      %c), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%add  // end
}
%inner (q: f32[32,8]) -> f32[32,8] {
  ROOT %q = f32[32,8]{1,0} parameter(0)
}
)");
  EXPECT_EQ(program.partitions, 2);
  EXPECT_EQ(only(program).received_bytes, 1024);
  EXPECT_EQ(program.memory.aliased, 1024);
}

// Whatever is cut off a text gives an answer or a UserError.
TEST(CompiledErrors, EveryPrefixIsRefusedOrRead) {
  const std::string whole = module_of(
      "  %c = f32[32,8] all-reduce(%p), channel_id=1, replica_groups=[2,4]<=[2,2,2]T(0,2,1), "
      "use_global_device_ids=true, to_apply=%add, metadata={op_name=\"jit(f)/dot\"}\n"
      "  ROOT %d = f32[32,8] collective-permute(%c), channel_id=1, "
      "source_target_pairs={{0,1},{1,0}}",
      kLoops);
  EXPECT_EQ(error_of(whole), "");
  for (size_t n = 0; n + 3 < whole.size(); ++n) EXPECT_NE(error_of(whole.substr(0, n)), "") << n;
  for (size_t n = 0; n < whole.size(); ++n) error_of(whole.substr(0, n) + whole.substr(n + 1));
}

}  // namespace
}  // namespace cleave::xla

#include <cstdio>
#include <filesystem>
#include <memory>

#include "cleave/cli/commands.h"
#include "cleave/cli/ranks.h"
#include "cleave/core/error.h"
#include "cleave/models/schemes.h"
#include "cleave/train/generate.h"
#include "cleave/train/run.h"

namespace cleave::cli {
namespace {

struct GenerateArguments {
  std::string folder;
  std::vector<std::string> prompts;
  std::string mesh, scheme = "megatron", stop;
  std::optional<int64_t> step;
  train::GenerateOptions options;
  bool greedy = false;
};

void print_bytes(std::span<const int32_t> tokens) {
  for (int32_t token : tokens)
    if (token >= 0) std::fputc(token, stdout);
}

models::LanguageModel trained_model(const GenerateArguments& arguments) {
  if (arguments.mesh.empty()) return train::load_trained(arguments.folder, arguments.step);
  const Mesh mesh = parse_mesh(arguments.mesh);
  const models::Scheme scheme = models::scheme_from(arguments.scheme);
  return train::load_trained(
      arguments.folder, arguments.step, [&](const std::string& name, const Tensor& weight) {
        return weight.shard(mesh, models::weight_spec(scheme, mesh, name, weight.shape()));
      });
}

void run_generate(GenerateArguments arguments) {
  const models::LanguageModel model = trained_model(arguments);
  if (!model.gpt)
    throw_user("generate: {} is not a model:gpt; only these keep keys and values",
               arguments.folder);
  if (model.config.vocab > 256)
    throw_user(
        "generate: the model has a vocabulary of {}, and prompts are bytes; it is for models "
        "that were trained on bytes (vocab=256)",
        model.config.vocab);
  if (arguments.greedy) arguments.options.temperature = 0;
  if (arguments.stop.size() > 1) throw_user("--stop '{}': it must be one byte", arguments.stop);
  if (!arguments.stop.empty())
    arguments.options.stop = static_cast<unsigned char>(arguments.stop[0]);
  std::vector<std::vector<int32_t>> prompts;
  for (const std::string& text : arguments.prompts) {
    auto& prompt = prompts.emplace_back();
    for (char c : text) prompt.push_back(static_cast<unsigned char>(c));
  }
  const train::Generator generate(model.config, model.gpt(model.weights));
  const bool streams = prompts.size() == 1 && speaks();
  if (streams) std::fputs(arguments.prompts[0].c_str(), stdout);
  const auto rows = generate(prompts, arguments.options, [&](std::span<const int32_t> tokens) {
    if (!streams) return;
    print_bytes(tokens);
    std::fflush(stdout);
  });
  if (!speaks()) return;
  for (size_t i = 0; !streams && i < rows.size(); ++i) {
    fmt::print("{}--- {}\n{}", i ? "\n" : "", i, arguments.prompts[i]);
    print_bytes(rows[i]);
  }
  fmt::print("\n");
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto a = std::make_shared<GenerateArguments>();
  CLI::App* command =
      app.add_subcommand("generate", "Text from a model that cleave train has trained on bytes");
  command->add_option("folder", a->folder, "the folder of the training")->required();
  command
      ->add_option("--prompt", a->prompts,
                   "the text to go on from; several prompts are continued together")
      ->required()
      ->allow_extra_args(false);
  command->add_option("--tokens", a->options.tokens, "new ones at most")->capture_default_str();
  auto* temperature =
      command->add_option("--temperature", a->options.temperature, "lower: likelier text")
          ->capture_default_str();
  command->add_option("--top-k", a->options.top_k, "of the k most likely tokens; 0: of all")
      ->capture_default_str();
  command
      ->add_option("--top-p", a->options.top_p,
                   "of the most likely tokens that have this probability together")
      ->capture_default_str();
  command->add_flag("--greedy", a->greedy, "always the most likely token")->excludes(temperature);
  command->add_option("--stop", a->stop, "a row ends with this byte");
  command->add_option("--seed", a->options.seed, "of what is drawn")->capture_default_str();
  command->add_option("--step", a->step, "the checkpoint; default: the latest");
  auto* mesh = command->add_option("--mesh", a->mesh, "over a mesh, such as data=1,model=2");
  command->add_option("--scheme", a->scheme, "with --mesh: how weights are sharded")
      ->needs(mesh)
      ->capture_default_str();
  command->callback([a] { run_generate(*a); });
}

}  // namespace cleave::cli

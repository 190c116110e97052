#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cleave::train {

// A training of a language model as `cleave train` does it: plain data, which run/config.json
// keeps.
struct RunConfig {
  std::string model;              // "model:gpt?layers=4&d=256"
  std::vector<std::string> data;  // files of tokens (tokens.h)
  std::vector<std::string> eval_data = {};
  double eval_share = 0;  // without eval_data: the last part of each file is for evaluation

  int64_t batch = 8;       // rows of a step
  int64_t length = 0;      // tokens of a row; 0: what the model says
  int64_t accumulate = 1;  // parts of a batch whose gradients are added up, one after the other
  int64_t steps = 1000;
  uint64_t seed = 0;          // of weights and of the order of samples
  std::string dtype = "f32";  // in which products are computed; weights are f32

  std::string optimizer = "adamw";
  double rate = 1e-3;
  int64_t warmup = 0;
  std::string schedule = "constant";
  double clip = 0;  // of the norm of all gradients; 0: none
  double weight_decay = 0.1;

  // "none": one device; "auto": planned; a scheme of models/schemes.h; or the file of a plan.
  std::string plan = "none";
  std::string mesh = {};
  int64_t devices = 0;       // without a mesh: a mesh of so many devices is chosen
  std::string machine = {};  // empty: this host, if it is calibrated, else the default
  std::string memory = {};
  std::string engine = "cleave";

  int64_t eval_every = 0, eval_batches = 16;
  int64_t save_every = 0, keep = 3;
  int64_t read_every = 1;
};

std::string to_json(const RunConfig& config);
// Throws UserError that names the field.
RunConfig run_config_from_json(const std::string& text, const std::string& path);

// What a training that goes on must have in common with the one that began it, if it is to be the
// same: all but where it runs, what it prints and how long it is (if the rate does not depend on
// that). Empty, or one line: "it was begun with --rate 0.001, and is now given 0.01".
std::string difference(const RunConfig& before, const RunConfig& now);

}  // namespace cleave::train

// The list of subcommands, and small helpers for those who turn it into text.
#include "cli/command.hpp"

namespace mobius::cli {

const char* const program_summary = "Builds ONNX packages for one execution provider from Hugging Face models (safetensors or GGUF).";

std::vector<Command> commands() {
  std::vector<Command> all;
  all.push_back(build_command());
  all.push_back(build_gguf_command());
  all.push_back(optimize_command());
  all.push_back(list_command());
  all.push_back(info_command());
  all.push_back(check_command());
  all.push_back(completion_command());
  all.push_back(man_command());
  return all;
}

namespace {

std::string with_choices(const std::string& help, const std::vector<std::string>& choices) { return choices.empty() ? help : help + ": " + one_of(choices); }

}  // namespace

std::string explanation_of(const Option& option) {
  return option.choices_shown_by.empty() ? with_choices(option.help, option.choices) : option.help + " (" + option.choices_shown_by + ")";
}

std::string explanation_of(const Argument& argument) { return with_choices(argument.help, argument.choices); }

std::string one_of(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += choices[i];
  }
  return text;
}

std::vector<std::string> spellings(const Option& option) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  while (begin <= option.names.size()) {
    const auto end = std::min(option.names.find(',', begin), option.names.size());
    names.push_back(option.names.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

std::string long_name(const Option& option) {
  for (auto& name : spellings(option)) {
    if (name.starts_with("--")) return name;
  }
  return option.names;
}

}  // namespace mobius::cli

// mobius completion: scripts for the completion of commands, options and their values in bash, zsh and fish.
#include <fmt/format.h>

#include <memory>

#include "cli/command.hpp"

namespace mobius::cli {
namespace {

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::vector<std::string> names_of(const std::vector<Command>& all) {
  std::vector<std::string> names;
  for (const auto& c : all) names.push_back(c.name);
  return names;
}

std::vector<std::string> all_spellings(const Command& command) {
  std::vector<std::string> names;
  for (const auto& option : command.options) {
    for (auto& name : spellings(option)) names.push_back(std::move(name));
  }
  names.insert(names.end(), {"-h", "--help"});
  return names;
}

// ── bash ──

std::string bash_reply(const std::vector<std::string>& choices, Completes completes) {
  if (!choices.empty()) return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$cur\"))", joined(choices));
  if (completes == Completes::folders) return "compopt -o filenames; COMPREPLY=($(compgen -d -- \"$cur\"))";
  if (completes == Completes::files) return "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\"))";
  return "COMPREPLY=()";
}

std::string bash_command(const Command& command) {
  std::string out = fmt::format("    {})\n      case $prev in\n", command.name);
  for (const auto& option : command.options) {
    if (option.value.empty()) continue;
    out += fmt::format("        {}) {}; return ;;\n", fmt::join(spellings(option), "|"), bash_reply(option.choices, option.completes));
  }
  out += "      esac\n";
  out += fmt::format("      if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W '{}' -- \"$cur\")); return; fi\n", joined(all_spellings(command)));
  if (!command.arguments.empty()) out += fmt::format("      {}\n", bash_reply(command.arguments.front().choices, command.arguments.front().completes));
  return out + "      ;;\n";
}

// ── zsh ──

// What stands inside single quotes there: colons and brackets part the fields of _arguments.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') out += "'\\''";
    else if (c == ':' || c == '[' || c == ']' || c == '\\') out += fmt::format("\\{}", c);
    else out += c;
  }
  return out;
}

std::string zsh_action(const std::vector<std::string>& choices, Completes completes) {
  if (!choices.empty()) return "(" + joined(choices) + ")";
  if (completes == Completes::folders) return "_files -/";
  return completes == Completes::files ? "_files" : " ";
}

std::string zsh_option(const Option& option) {
  const auto names = spellings(option);
  const bool repeats = std::holds_alternative<std::vector<std::string>*>(option.into);
  std::string out;
  for (const auto& name : names) {
    out += fmt::format(" \\\n        '{}{}[{}]", repeats ? "*" : "(" + joined(names) + ")", name, zsh_text(option.help));
    if (!option.value.empty()) out += fmt::format(":{}:{}", option.value, zsh_action(option.choices, option.completes));
    out += "'";
  }
  return out;
}

// ── fish ──

std::string fish_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string fish_option(const Command& command, const Option& option) {
  std::string out = fmt::format("complete -c mobius -n '__fish_seen_subcommand_from {}'", command.name);
  for (const auto& name : spellings(option)) {
    if (name.starts_with("--")) out += " -l " + name.substr(2);
    else out += " -s " + name.substr(1);
  }
  if (!option.value.empty()) out += " -r";
  if (!option.choices.empty()) out += fmt::format(" -f -a '{}'", joined(option.choices));
  else if (option.completes == Completes::folders) out += " -f -a '(__fish_complete_directories)'";
  else if (option.completes == Completes::files) out += " -F";
  else if (!option.value.empty()) out += " -f";
  return out + fmt::format(" -d '{}'\n", fish_text(option.help));
}

}  // namespace

std::string completion_for_bash(const std::vector<Command>& all) {
  std::string out =
      "# Completion of mobius for bash.\n"
      "_mobius() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n";
  out += fmt::format("    COMPREPLY=($(compgen -W '{} --version --help' -- \"$cur\"))\n    return\n  fi\n", joined(names_of(all)));
  out += "  case ${COMP_WORDS[1]} in\n";
  for (const auto& command : all) out += bash_command(command);
  return out + "  esac\n}\ncomplete -F _mobius mobius\n";
}

std::string completion_for_zsh(const std::vector<Command>& all) {
  std::string out = "#compdef mobius\n# Completion of mobius for zsh.\n_mobius() {\n  local -a commands=(\n";
  for (const auto& command : all) out += fmt::format("    '{}:{}'\n", command.name, zsh_text(command.summary));
  out += "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n";
  out += "  local command=$words[2]\n  shift words\n  ((CURRENT--))\n  case $command in\n";
  for (const auto& command : all) {
    out += fmt::format("    {})\n      _arguments -s", command.name);
    for (const auto& option : command.options) out += zsh_option(option);
    out += " \\\n        '(-h --help)'{-h,--help}'[show help]'";
    for (const auto& a : command.arguments) out += fmt::format(" \\\n        ':{}:{}'", a.name, zsh_action(a.choices, a.completes));
    out += "\n      ;;\n";
  }
  return out + "  esac\n}\n_mobius \"$@\"\n";
}

std::string completion_for_fish(const std::vector<Command>& all) {
  std::string out = "# Completion of mobius for fish.\n";
  const std::string names = joined(names_of(all));
  out += "complete -c mobius -n __fish_use_subcommand -f -l version -d 'show the version'\n";
  for (const auto& command : all) {
    out += fmt::format("complete -c mobius -n __fish_use_subcommand -f -a {} -d '{}'\n", command.name, fish_text(command.summary));
  }
  for (const auto& command : all) {
    for (const auto& a : command.arguments) {
      if (!a.choices.empty()) {
        out += fmt::format("complete -c mobius -n '__fish_seen_subcommand_from {}' -f -a '{}' -d '{}'\n", command.name, joined(a.choices), fish_text(a.help));
      }
    }
    for (const auto& option : command.options) out += fish_option(command, option);
  }
  return out;
}

Command completion_command() {
  auto shell = std::make_shared<std::string>();
  return {.name = "completion",
          .summary = "Print a completion script for a shell",
          .details =
              "Commands, options and their values are completed: execution providers, dtypes, tasks, model types, files. bash may read the script at once; "
              "for every session to come it is called mobius in ~/.local/share/bash-completion/completions, _mobius in a folder of zsh's $fpath, or "
              "mobius.fish in ~/.config/fish/completions.",
          .arguments = {{.name = "SHELL", .help = "the shell", .into = shell.get(), .choices = {"bash", "zsh", "fish"}}},
          .examples = {"source <(mobius completion bash)", "mobius completion fish > ~/.config/fish/completions/mobius.fish"},
          .run = [shell] {
            const auto all = commands();
            fmt::print("{}", *shell == "bash" ? completion_for_bash(all) : *shell == "zsh" ? completion_for_zsh(all) : completion_for_fish(all));
            return 0;
          }};
}

}  // namespace mobius::cli

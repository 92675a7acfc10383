// --help, laid out for 100 columns.
#include <fmt/format.h>

#include <algorithm>

#include "cli/command.hpp"

namespace mobius::cli {
namespace {

constexpr std::size_t width = 100;
constexpr std::size_t left = 30;  // where explanations begin

std::string wrap(std::string_view text, std::size_t indent, std::size_t column) {
  std::string out;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    const auto word = text.substr(0, end);
    if (column > indent && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out + "\n";
}

std::string row(const std::string& head, const std::string& text) {
  std::string line = "  " + head;
  if (line.size() + 2 > left) line += "\n" + std::string(left, ' ');
  else line.resize(left, ' ');
  return line + wrap(text, left, left);
}

std::string paragraphs(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto end = std::min(text.find("\n\n"), text.size());
    out += "\n" + wrap(text.substr(0, end), 0, 0);
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return out;
}

std::string head_of(const Option& option) {
  std::string names;
  for (const auto& name : spellings(option)) names += (names.empty() ? "" : ", ") + name;
  if (names.starts_with("--")) names = "    " + names;
  return option.value.empty() ? names : names + " " + option.value;
}

std::string with_choices(std::string help, const std::vector<std::string>& choices) { return choices.empty() ? help : help + ": " + one_of(choices); }

}  // namespace

std::string usage_of(const Command& command) {
  std::string text = "mobius " + command.name;
  if (!command.options.empty()) text += " [OPTIONS]";
  for (const auto& a : command.arguments) text += a.required ? " " + a.name : " [" + a.name + "]";
  return text;
}

std::string help_of(const Command& command) {
  std::string out = command.summary + ".\n\nUsage: " + usage_of(command) + "\n" + paragraphs(command.details);
  if (!command.arguments.empty()) out += "\nArguments:\n";
  for (const auto& a : command.arguments) out += row(a.name, with_choices(a.help, a.choices));
  out += "\nOptions:\n";
  for (const auto& o : command.options) out += row(head_of(o), with_choices(o.help, o.choices));
  out += row("-h, --help", "show this help");
  if (!command.examples.empty()) out += "\nExamples:\n";
  for (const auto& e : command.examples) out += "  " + e + "\n";
  return out;
}

std::string help_of_program(const std::vector<Command>& all) {
  std::string out = std::string(program_summary) + "\n\nUsage: mobius COMMAND [OPTIONS] ...\n\nCommands:\n";
  for (const auto& c : all) out += fmt::format("  {:<14}{}\n", c.name, c.summary);
  out += "\nOptions:\n  --version     show the version\n  -h, --help    show this help; mobius COMMAND --help tells more about a command\n";
  out += "\nExamples:\n";
  for (const auto& c : all) {
    if (!c.examples.empty()) out += "  " + c.examples.front() + "\n";
  }
  return out + "\nExit codes: 0 done, 1 failed, 2 used wrongly, 130 interrupted, 143 terminated.\n";
}

}  // namespace mobius::cli

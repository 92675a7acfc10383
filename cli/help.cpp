// --help, laid out for the columns that there are.
#include <fmt/format.h>

#include <algorithm>

#include "cli/command.hpp"

namespace mobius::cli {
namespace {

struct Layout {
  std::size_t width;
  std::size_t left = 30;  // where explanations begin
};

// Where there is little room, explanations stand below what they explain.
Layout layout_of(std::size_t width) { return width < 80 ? Layout{width, 8} : Layout{width}; }

// From `column` on; further lines begin at `indent`.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent, std::size_t column) {
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

std::string row(const std::string& head, const std::string& text, Layout layout) {
  std::string line = "  " + head;
  if (line.size() + 2 > layout.left) line += "\n" + std::string(layout.left, ' ');
  else line.resize(layout.left, ' ');
  return line + wrap(text, layout.width, layout.left, layout.left);
}

std::string paragraphs(std::string_view text, std::size_t width) {
  std::string out;
  while (!text.empty()) {
    const auto end = std::min(text.find("\n\n"), text.size());
    out += "\n" + wrap(text.substr(0, end), width, 0, 0);
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

}  // namespace

std::string usage_of(const Command& command) {
  std::string text = "mobius " + command.name;
  if (!command.options.empty()) text += " [OPTIONS]";
  for (const auto& a : command.arguments) text += a.required ? " " + a.name : " [" + a.name + "]";
  return text;
}

std::string help_of(const Command& command, std::size_t width) {
  const auto layout = layout_of(width);
  std::string out = wrap(command.summary + ".", width, 0, 0) + "\nUsage: " + usage_of(command) + "\n" + paragraphs(command.details, width);
  if (!command.arguments.empty()) out += "\nArguments:\n";
  for (const auto& a : command.arguments) out += row(a.name, explanation_of(a), layout);
  out += "\nOptions:\n";
  for (const auto& o : command.options) out += row(head_of(o), explanation_of(o), layout);
  out += row("-h, --help", "show this help", layout);
  if (!command.examples.empty()) out += "\nExamples:\n";
  for (const auto& e : command.examples) out += "  " + e + "\n";
  return out;
}

std::string help_of_program(const std::vector<Command>& all, std::size_t width) {
  const Layout layout{width, 16};
  std::string out = wrap(program_summary, width, 0, 0) + "\nUsage: mobius COMMAND [OPTIONS] ...\n\nCommands:\n";
  for (const auto& c : all) out += row(c.name, c.summary, layout);
  out += "\nOptions:\n" + row("--version", "show the version", layout);
  out += row("-h, --help", "show this help; mobius COMMAND --help tells more about a command", layout);
  out += "\nExamples:\n";
  for (const auto& c : all) {
    if (!c.examples.empty()) out += "  " + c.examples.front() + "\n";
  }
  return out + "\n" + wrap("Exit codes: 0 done, 1 failed, 2 used wrongly, 130 interrupted, 143 terminated.", width, 0, 0);
}

}  // namespace mobius::cli

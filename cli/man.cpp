// mobius man: the manual page, section 1, in roff.
#include <fmt/format.h>

#include "cli/command.hpp"
#include "mobius/package/version.hpp"

namespace mobius::cli {
namespace {

// Backslashes and hyphens mean something to roff, and so does a dot or quote that begins a line.
std::string roff(std::string_view text) {
  std::string out;
  bool at_line_start = true;
  for (const char c : text) {
    if (at_line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else out += c;
    at_line_start = c == '\n';
  }
  return out;
}

std::string paragraphs(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto end = std::min(text.find("\n\n"), text.size());
    out += ".PP\n" + roff(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return out;
}

std::string entry(const std::string& head, const std::string& text) { return ".TP\n" + head + "\n" + roff(text) + ".\n"; }

std::string head_of(const Option& option) {
  std::string out;
  for (const auto& name : spellings(option)) out += (out.empty() ? "" : ", ") + ("\\fB" + roff(name) + "\\fR");
  return option.value.empty() ? out : out + " \\fI" + roff(option.value) + "\\fR";
}

}  // namespace

std::string manual_page(const std::vector<Command>& all) {
  std::string out =
      fmt::format(".TH MOBIUS 1 \"\" \"mobius {}\" \"User Commands\"\n.SH NAME\nmobius \\- build ONNX packages from Hugging Face models\n", version());
  out += ".SH SYNOPSIS\n";
  for (const auto& c : all) out += ".B " + roff(usage_of(c)) + "\n.br\n";
  out += ".SH DESCRIPTION\n" + roff(program_summary) + "\n.SH COMMANDS\n";
  for (const auto& c : all) {
    out += ".SS " + roff(usage_of(c)) + "\n" + roff(c.summary) + ".\n" + paragraphs(c.details);
    for (const auto& a : c.arguments) out += entry("\\fI" + roff(a.name) + "\\fR", explanation_of(a));
    for (const auto& o : c.options) out += entry(head_of(o), explanation_of(o));
    for (const auto& e : c.examples) out += ".PP\n.EX\n" + roff(e) + "\n.EE\n";
  }
  out += ".SH OPTIONS\n";
  out += entry("\\fB\\-h\\fR, \\fB\\-\\-help\\fR", "show help, of the program or of a command");
  out += entry("\\fB\\-\\-version\\fR", "show the version");
  out += ".SH EXIT STATUS\n";
  const std::vector<std::pair<std::string, std::string>> codes = {
      {"0", "done"},
      {"1", "failed; one message on standard error says why, and what was there before is as it was"},
      {"2", "used wrongly"},
      {"141", "nobody reads standard output any more"},
      {"130, 143", "interrupted, terminated; what was begun is removed"}};
  for (const auto& [code, text] : codes) out += entry("\\fB" + code + "\\fR", text);
  out += ".SH ENVIRONMENT\n";
  out += entry("\\fBHF_HUB_CACHE\\fR, \\fBHF_HOME\\fR", "where the Hugging Face cache is; otherwise ~/.cache/huggingface/hub");
  out += entry("\\fBMOBIUS_ONNXRUNTIME\\fR", "where ONNX Runtime's library is, for check");
  out += entry("\\fBMOBIUS_THREADS\\fR", "the number of threads, where --threads does not say");
  return out;
}

Command man_command() {
  return {.name = "man", .summary = "Print the manual page", .details = "In roff, for man and mandoc.", .examples = {"mobius man | man -l -"}, .run = [] {
            fmt::print("{}", manual_page(commands()));
            return 0;
          }};
}

}  // namespace mobius::cli

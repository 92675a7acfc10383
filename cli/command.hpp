// The command line as data: what each subcommand takes, says about itself and does. Parsing, --help, shell completions and the manual
// page are all made from these tables.
//
//   Command list_command() {
//     auto what = std::make_shared<std::string>();
//     return {.name = "list", .summary = "Show what can be built",
//             .arguments = {{.name = "KIND", .help = "what to list", .into = what.get(), .choices = {"models", "eps"}}},
//             .run = [what] { ...; return 0; }};
//   }
#pragma once
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace mobius::cli {

// What a shell offers for a value.
enum class Completes { nothing, files, folders };

struct Option {
  std::string names;  // "-o,--output"
  std::string value;  // how help calls its value; "" for a flag
  std::string help;
  // bool: a flag; vector: may be given several times.
  std::variant<bool*, std::string*, std::size_t*, std::vector<std::string>*> into;
  std::vector<std::string> choices = {};                    // the values it takes; empty: any
  std::function<bool(const std::string&)> also_takes = {};  // other spellings of the choices
  Completes completes = Completes::nothing;
  std::string choices_shown_by = {};  // "mobius list models": where the choices are too many for help
};

// A value told by its place.
struct Argument {
  std::string name;
  std::string help;
  std::string* into;
  std::vector<std::string> choices = {};
  Completes completes = Completes::nothing;
  bool required = true;
};

struct Command {
  std::string name;
  std::string summary;                   // one line
  std::string details = {};              // paragraphs, separated by empty lines
  std::vector<Argument> arguments = {};  // required ones first
  std::vector<Option> options = {};
  std::vector<std::string> examples = {};
  std::function<int()> run;  // gives the exit code; throws Error, or UsageError for what the tables can't check
};

// Wrong use of the command line: exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::vector<Command> commands();  // in the order of help

Command build_command();
Command build_gguf_command();
Command optimize_command();
Command list_command();
Command info_command();
Command check_command();
Command completion_command();
Command man_command();

// Parses and runs. Gives the exit code: 0, 1 (failure), 2 (usage), 130 and 143 (interrupted, terminated).
int run(int argc, char** argv);

// ── text made from the tables ──
std::string help_of_program(const std::vector<Command>& all, std::size_t width);
std::string help_of(const Command& command, std::size_t width);  // `width`: the columns that there are
std::string usage_of(const Command& command);                    // "mobius build [OPTIONS] MODEL [OUT]"
std::string manual_page(const std::vector<Command>& all);        // roff, section 1
std::string completion_for_bash(const std::vector<Command>& all);
std::string completion_for_zsh(const std::vector<Command>& all);
std::string completion_for_fish(const std::vector<Command>& all);

std::string explanation_of(const Option& option);  // what it means and takes
std::string explanation_of(const Argument& argument);
std::string one_of(const std::vector<std::string>& choices);  // "a, b or c"
std::vector<std::string> spellings(const Option& option);     // {"-o", "--output"}
std::string long_name(const Option& option);                  // "--output"
extern const char* const program_summary;

}  // namespace mobius::cli

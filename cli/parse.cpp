// From the tables to CLI11, and from what goes wrong to exit codes. The only file that sees the command-line library.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include "cli/cancel.hpp"
#include "cli/command.hpp"
#include "cli/format.hpp"
#include "mobius/base/error.hpp"
#include "mobius/base/option_name.hpp"
#include "mobius/base/terminal.hpp"
#include "mobius/package/version.hpp"

namespace mobius::cli {
namespace {

// As a validator, so that the library names the option in its message. An empty text means that the value is fine.
CLI::Validator choice(const std::vector<std::string>& choices, const std::function<bool(const std::string&)>& also_takes) {
  return {[choices, also_takes](std::string& value) {
            for (const auto& c : choices) {
              if (c == value) return std::string();
            }
            if (also_takes && also_takes(value)) return std::string();
            return choices.empty() ? "found '" + value + "'" : "found '" + value + "', expected " + one_of(choices);
          },
          ""};
}

// The library takes -1 for the largest number there is.
CLI::Validator whole_number() {
  return {[](std::string& value) {
            const bool is_number = !value.empty() && value.size() <= 9 && value.find_first_not_of("0123456789") == value.npos;
            return is_number ? std::string() : "found '" + value + "', expected a number from 0 to 999999999";
          },
          ""};
}

void add_option(CLI::App& app, const Option& option) {
  CLI::Option* added = std::visit(
      [&](auto* into) -> CLI::Option* {
        using T = std::remove_pointer_t<decltype(into)>;
        if constexpr (std::is_same_v<T, bool>) return app.add_flag(option.names, *into, option.help);
        else return app.add_option(option.names, *into, option.help)->allow_extra_args(false);
      },
      option.into);
  if (!option.value.empty()) added->type_name(option.value);
  if (std::holds_alternative<std::size_t*>(option.into)) added->check(whole_number());
  if (!option.choices.empty() || option.also_takes) added->check(choice(option.choices, option.also_takes));
}

void add_command(CLI::App& program, const Command& command) {
  CLI::App* app = program.add_subcommand(command.name, command.summary);
  app->set_help_flag("-h,--help", "Show this help");
  for (const auto& argument : command.arguments) {
    // CLI11 takes the name of a place in lower case for granted; messages use it as it is.
    auto* added = app->add_option(argument.name, *argument.into, argument.help);
    if (argument.required) added->required();
    if (!argument.choices.empty()) added->check(choice(argument.choices, {}));
  }
  for (const auto& option : command.options) add_option(*app, option);
}

// Unlike fmt::print, which throws where nobody can read: the exit code says it all the same.
void print_error(const std::string& text) { std::fputs(text.c_str(), stderr); }

int usage_error(std::string_view message, const Command* command) {
  const std::string name = command ? "mobius " + command->name : "mobius";
  print_error(fmt::format("mobius: error: {}\nSee '{} --help'.\n", printable(message), name));
  return 2;
}

int failure(std::string_view message, int code) {
  print_error(fmt::format("mobius: error: {}\n", printable(message)));
  return code;
}

// Standard output could not be written, for the reason in `errno`. A reader that has enough (`mobius list models | head`) is no error to
// speak of: the exit code is that of a program that the signal has ended.
int output_failure(int reason) {
#if defined(__unix__) || defined(__APPLE__)
  if (reason == EPIPE) return 128 + SIGPIPE;
#endif
  return failure("cannot write to standard output", 1);
}

// Printing throws when its stream fails, with a message that names none.
int failure_of(const std::exception& e) {
  if (!std::ferror(stdout)) return failure(e.what(), 1);
  const auto* of_system = dynamic_cast<const std::system_error*>(&e);
  return output_failure(of_system ? of_system->code().value() : 0);
}

int run_command(const Command& command) try {
  catch_signals();
  return command.run();
} catch (const UsageError& e) {
  return usage_error(e.what(), &command);
} catch (const Error& e) {
  return failure(e.what(), e.kind() == ErrorKind::cancelled ? cancelled_exit_code() : 1);
} catch (const std::bad_alloc&) {
  return failure("out of memory", 1);
} catch (const std::exception& e) {
  return failure_of(e);
}

const Command* chosen_command(const CLI::App& program, const std::vector<Command>& all) {
  const auto chosen = program.get_subcommands();
  for (const auto& command : all) {
    if (!chosen.empty() && chosen.front()->get_name() == command.name) return &command;
  }
  return nullptr;
}

std::string names_of(const std::vector<Command>& all) {
  std::vector<std::string> names;
  for (const auto& c : all) names.push_back(c.name);
  return one_of(names);
}

std::size_t help_width(std::FILE* stream) {
  constexpr int most = 100, least = 40;  // longer lines are hard to read
  return static_cast<std::size_t>(is_terminal(stream) ? std::clamp(terminal_width(stream), least, most) : most);
}

int parse_and_run(int argc, char** argv) {
  const auto all = commands();
  if (argc > 1 && argv[1][0] != '-') {
    const std::string first = argv[1];
    bool known = false;
    for (const auto& c : all) known = known || c.name == first;
    if (!known) return usage_error("found '" + first + "', expected a command: " + names_of(all), nullptr);
  }

  CLI::App program(program_summary, "mobius");
  program.set_help_flag("-h,--help", "Show this help");
  bool show_version = false;
  program.add_flag("--version", show_version, "Show the version");
  for (const auto& command : all) add_command(program, command);
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto* command = chosen_command(program, all);
    fmt::print("{}", command ? help_of(*command, help_width(stdout)) : help_of_program(all, help_width(stdout)));
    return 0;
  } catch (const CLI::ParseError& e) {
    return usage_error(e.what(), chosen_command(program, all));
  }
  if (show_version) {
    fmt::print("mobius {}\n", version());
    return 0;
  }
  const auto* command = chosen_command(program, all);
  if (!command) {
    print_error(help_of_program(all, help_width(stderr)));
    return 2;
  }
  return run_command(*command);
}

}  // namespace

int run(int argc, char** argv) {
  keep_standard_streams_apart();
  call_options_flags();
  try {
    const int code = parse_and_run(argc, argv);
    errno = 0;
    const bool written = std::fflush(stdout) == 0 && !std::ferror(stdout);
    return written || code != 0 ? code : output_failure(errno);
  } catch (const std::exception& e) {  // of help and version, which run no command
    return failure_of(e);
  }
}

}  // namespace mobius::cli

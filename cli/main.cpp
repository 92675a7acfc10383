// The program `mobius`.
#include "cli/command.hpp"

int main(int argc, char** argv) { return mobius::cli::run(argc, argv); }

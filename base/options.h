// The one options table (base/options.def): it fills PmOptions, and prints `--help` of every subcommand.
#ifndef PM_BASE_OPTIONS_H
#define PM_BASE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

// One bit a subcommand; rows of base/options.def say which of them take the option.
typedef enum PmCommand {
#define COMMAND(name, args, help) PM_CMD_##name,
#include "base/options.def"
  PM_CMD_COUNT
} PmCommand;

#define PM_MAX_REPEATED 32

typedef struct PmStrList {
  const char *items[PM_MAX_REPEATED];
  int32_t n;
} PmStrList;

// Field types named by the table.
typedef const char *PmOptStr;
typedef int64_t PmOptInt;
typedef int64_t PmOptCount;  // at least 1 when it is given
typedef bool PmOptFlag;
typedef PmStrList PmOptList;

typedef struct PmOptions {
  PmCommand command;
  const char *args[PM_MAX_REPEATED];  // positional arguments after the subcommand
  int32_t n_args;
#define OPTION(field, type, flag, arg, init, commands, help) PmOpt##type field;
#include "base/options.def"
} PmOptions;

// Parses argv (argv[0] is the program). USAGE with a did-you-mean on an unknown subcommand, option or value.
// --help and --version are answered on stdout; *out_done is then true.
PM_MUST_CHECK PmStatus *pm_options_parse(PmArena *arena, int argc, char **argv, PmOptions *out, bool *out_done);
void pm_options_print_help(int command, FILE *to);  // PM_CMD_COUNT: the overview
const char *pm_command_name(PmCommand c);

#endif

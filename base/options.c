#include "base/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

typedef enum OptType { TYPE_Str, TYPE_Int, TYPE_Count, TYPE_Flag, TYPE_List } OptType;

typedef struct OptRow {
  const char *flag;
  const char *arg;  // NULL for flags
  OptType type;
  size_t offset;  // of the field in PmOptions
  uint64_t commands;
  const char *help;
} OptRow;

typedef struct CommandRow {
  const char *name, *args, *help;
} CommandRow;

static const char version[] = "0.1.0";

static const CommandRow commands[] = {
#define COMMAND(name, args, help) [PM_CMD_##name] = {#name, args, help},
#include "base/options.def"
};

static const OptRow options[] = {
#define OPTION(field, type, flag, arg, init, commands, help) \
  {flag, arg, TYPE_##type, offsetof(PmOptions, field), commands, help},
#include "base/options.def"
};

#define N_OPTIONS ((int32_t)(sizeof options / sizeof *options))

static const PmOptions defaults = {
#define OPTION(field, type, flag, arg, init, commands, help) .field = init,
#include "base/options.def"
};

typedef struct Parser {
  PmArena *arena;
  int argc, at;
  char **argv;
  PmOptions *out;
  bool given[N_OPTIONS];  // options that hold one value and have it
} Parser;

const char *pm_command_name(PmCommand c) { return commands[c].name; }

static bool takes(const OptRow *row, int command) { return row->commands >> command & 1; }

static void *field_of(PmOptions *o, const OptRow *row) { return (char *)o + row->offset; }

// A value written in lower case in the table ("text|json") is a list of the only values.
static bool is_choice(const OptRow *row) {
  return row->arg && row->arg[strspn(row->arg, "abcdefghijklmnopqrstuvwxyz|")] == '\0';
}

static void print_default(const OptRow *row, FILE *to) {
  const char *at = (const char *)&defaults + row->offset;
  if (row->type == TYPE_List) {
    fputs(" (may be given more than once)", to);
  } else if (row->type == TYPE_Str) {
    const char *text = *(const PmOptStr *)(const void *)at;
    if (text) fprintf(to, " (default: %s)", text);
  }
}

static void print_overview(FILE *to) {
  fputs("usage: pmodel COMMAND [options] ...\n\ncommands:\n", to);
  for (int i = 0; i < PM_CMD_COUNT; i++) fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
  fputs("\n`pmodel COMMAND --help` lists the options of a command; `pmodel --version` prints the version.\n", to);
}

void pm_options_print_help(int command, FILE *to) {
  if (command < 0 || command >= PM_CMD_COUNT) {
    print_overview(to);
    return;
  }
  const CommandRow *c = &commands[command];
  fprintf(to, "usage: pmodel %s [options] %s\n\n%s\n\noptions:\n", c->name, c->args, c->help);
  for (int32_t i = 0; i < N_OPTIONS; i++) {
    const OptRow *row = &options[i];
    if (!takes(row, command)) continue;
    char left[48];
    snprintf(left, sizeof left, "%s%s%s", row->flag, row->arg ? " " : "", row->arg ? row->arg : "");
    fprintf(to, "  %-26s %s", left, row->help);
    print_default(row, to);
    fputc('\n', to);
  }
  fprintf(to, "  %-26s %s\n", "--help", "print this text");
}

static const OptRow *find_option(const char *name, size_t len) {
  for (int32_t i = 0; i < N_OPTIONS; i++) {
    if (strlen(options[i].flag) == len && memcmp(options[i].flag, name, len) == 0) return &options[i];
  }
  return NULL;
}

static PmStatus *unknown(const char *what, const char *name, const char *near, const char *see) {
  if (near) return PM_STATUS(PM_ERR_USAGE, "unknown %s `%s`: did you mean `%s`?", what, name, near);
  return PM_STATUS(PM_ERR_USAGE, "unknown %s `%s`: `%s --help` lists them", what, name, see);
}

static PmStatus *unknown_option(Parser *p, const char *name) {
  const char *near[N_OPTIONS];
  int32_t n = 0;
  for (int32_t i = 0; i < N_OPTIONS; i++) {
    if (takes(&options[i], (int)p->out->command)) near[n++] = options[i].flag;
  }
  const char *see = pm_arena_printf(p->arena, "pmodel %s", pm_command_name(p->out->command));
  return unknown("option", name, pm_did_you_mean(name, near, n), see);
}

static PmStatus *foreign_option(Parser *p, const OptRow *row) {
  PmBuf owners;
  pm_buf_init(&owners);
  for (int i = 0; i < PM_CMD_COUNT; i++) {
    if (takes(row, i)) pm_buf_printf(&owners, "%s%s", owners.len ? ", " : "", commands[i].name);
  }
  PmStatus *st = PM_STATUS(PM_ERR_USAGE, "`pmodel %s` does not take `%s` (it belongs to: %s)",
                           pm_command_name(p->out->command), row->flag, pm_buf_str(&owners));
  pm_buf_deinit(&owners);
  return st;
}

static PmStatus *check_choice(Parser *p, const OptRow *row, const char *value) {
  const char *choices[16];
  int32_t n = 0;
  char *text = pm_arena_strdup(p->arena, row->arg), *rest = text;
  for (char *word = strtok_r(text, "|", &rest); word && n < 16; word = strtok_r(NULL, "|", &rest)) {
    if (strcmp(word, value) == 0) return NULL;
    choices[n++] = word;
  }
  const char *near = pm_did_you_mean(value, choices, n);
  if (near) {
    return PM_STATUS(PM_ERR_USAGE, "`%s` is not a value of `%s` (%s): did you mean `%s`?", value, row->flag, row->arg,
                     near);
  }
  return PM_STATUS(PM_ERR_USAGE, "`%s` is not a value of `%s` (%s)", value, row->flag, row->arg);
}

static PmStatus *set_int(const OptRow *row, const char *value, PmOptInt *field) {
  char *end;
  errno = 0;
  long long v = strtoll(value, &end, 10);
  if (end == value || *end || errno == ERANGE || strchr(" \t\n\v\f\r", value[0])) {
    return PM_STATUS(PM_ERR_USAGE, "`%s` needs a whole number, not `%s`", row->flag, value);
  }
  if (row->type == TYPE_Count && v < 1) {
    return PM_STATUS(PM_ERR_USAGE, "`%s` needs a number above 0, not `%s`", row->flag, value);
  }
  if (v < 0) return PM_STATUS(PM_ERR_USAGE, "`%s` needs a number that is not below 0, not `%s`", row->flag, value);
  *field = v;
  return NULL;
}

static PmStatus *set_value(Parser *p, const OptRow *row, const char *value) {
  void *field = field_of(p->out, row);
  bool *given = &p->given[row - options];
  if (*given) return PM_STATUS(PM_ERR_USAGE, "`%s` is given twice, and holds one value", row->flag);
  *given = row->type != TYPE_List;
  if (is_choice(row)) PM_TRY(check_choice(p, row, value));
  if (row->type == TYPE_Int || row->type == TYPE_Count) return set_int(row, value, field);
  if (row->type == TYPE_Str) {
    *(PmOptStr *)field = value;
    return NULL;
  }
  PmOptList *list = field;
  if (list->n == PM_MAX_REPEATED) {
    return PM_STATUS(PM_ERR_USAGE, "`%s` is given more than %d times", row->flag, PM_MAX_REPEATED);
  }
  list->items[list->n++] = value;
  return NULL;
}

static PmStatus *parse_option(Parser *p, const char *word) {
  const char *equals = strchr(word, '=');
  size_t len = equals ? (size_t)(equals - word) : strlen(word);
  const OptRow *row = find_option(word, len);
  if (!row) return unknown_option(p, pm_arena_strndup(p->arena, word, len));
  if (!takes(row, (int)p->out->command)) return foreign_option(p, row);
  if (row->type == TYPE_Flag) {
    if (equals) return PM_STATUS(PM_ERR_USAGE, "`%s` takes no value", row->flag);
    *(PmOptFlag *)field_of(p->out, row) = true;
    return NULL;
  }
  if (equals) return set_value(p, row, equals + 1);
  if (p->at >= p->argc) return PM_STATUS(PM_ERR_USAGE, "`%s` needs a value (%s)", row->flag, row->arg);
  return set_value(p, row, p->argv[p->at++]);
}

static PmStatus *parse_arg(Parser *p, const char *word) {
  if (p->out->n_args == PM_MAX_REPEATED) {
    return PM_STATUS(PM_ERR_USAGE, "more than %d arguments", PM_MAX_REPEATED);
  }
  p->out->args[p->out->n_args++] = word;
  return NULL;
}

static PmStatus *parse_command(Parser *p, const char *word) {
  const char *names[PM_CMD_COUNT];
  for (int i = 0; i < PM_CMD_COUNT; i++) {
    names[i] = commands[i].name;
    if (strcmp(word, names[i]) == 0) {
      p->out->command = (PmCommand)i;
      return NULL;
    }
  }
  return unknown("command", word, pm_did_you_mean(word, names, PM_CMD_COUNT), "pmodel");
}

PmStatus *pm_options_parse(PmArena *arena, int argc, char **argv, PmOptions *out, bool *out_done) {
  *out = defaults;
  *out_done = false;
  Parser p = {.arena = arena, .argc = argc, .at = 2, .argv = argv, .out = out};
  if (argc < 2) return PM_STATUS(PM_ERR_USAGE, "a command is needed: `pmodel --help` lists them");
  const char *first = argv[1];
  if (strcmp(first, "--version") == 0) {
    printf("pmodel %s\n", version);
    *out_done = true;
    return NULL;
  }
  if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0) {
    pm_options_print_help(PM_CMD_COUNT, stdout);
    *out_done = true;
    return NULL;
  }
  PM_TRY(parse_command(&p, first));
  bool only_args = false;
  while (p.at < argc) {
    const char *word = argv[p.at++];
    if (!only_args && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
      pm_options_print_help((int)out->command, stdout);
      *out_done = true;
      return NULL;
    }
    if (!only_args && strcmp(word, "--") == 0) {
      only_args = true;
    } else if (!only_args && word[0] == '-' && word[1]) {
      PM_TRY(parse_option(&p, word));
    } else {
      PM_TRY(parse_arg(&p, word));
    }
  }
  return NULL;
}

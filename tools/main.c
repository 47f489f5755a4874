#include <string.h>

#include "base/json.h"
#include "tools/tool.h"

typedef PmStatus *(*Command)(PmTool *t);

static const Command commands[] = {
#define COMMAND(name, args, help) [PM_CMD_##name] = pm_cmd_##name,
#include "base/options.def"
};

static void print_json_status(const PmStatus *st) {
  PmBuf text;
  PmJson j;
  pm_buf_init(&text);
  pm_json_init(&j, &text, false);
  pm_json_object(&j);
  pm_json_key(&j, "level"), pm_json_str(&j, "error");
  pm_json_key(&j, "message"), pm_json_str(&j, pm_status_message(st));
  pm_json_key(&j, "exit"), pm_json_i64(&j, pm_status_code(st));
  pm_json_end_object(&j);
  fprintf(stderr, "%s\n", pm_buf_str(&text));
  pm_buf_deinit(&text);
}

// The places in our own source help us only; a user reads them when the fault is ours.
static void print_status(const PmTool *t, const PmStatus *st) {
  if (strcmp(t->opt.diagnostics, "json") == 0) {
    print_json_status(st);
  } else if (pm_status_code(st) == PM_ERR_INTERNAL) {
    pm_status_print(st, stderr);
  } else {
    fprintf(stderr, "pmodel: error: %s\n", pm_status_message(st));
  }
}

// Diagnostics explain an INPUT status already.
static int finish(PmTool *t, PmStatus *st) {
  if (!st && t->diags && pm_diags_errors(t->diags) > 0) {
    st = PM_STATUS(PM_ERR_INPUT, "%d errors", pm_diags_errors(t->diags));
  }
  int code = (int)pm_status_code(st);
  bool explained = code == PM_ERR_INPUT && t->diags && pm_diags_errors(t->diags) > 0;
  bool says;
  int end = pm_launch_settle(t, code, &says);
  if (says) pm_tool_print_diags(t);
  if (says && st && !explained) print_status(t, st);
  if (says && !st && end == PM_ERR_DEADLINE)
    fputs("pmodel: error: other ranks do not come to the end of the run\n", stderr);
  code = end;
  pm_status_drop(st);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fputs("pmodel: error: cannot write to standard output\n", stderr);
    if (code == 0) code = PM_ERR_ENVIRONMENT;
  }
  return code;
}

int main(int argc, char **argv) {
  PmTool t = {.opt = {.diagnostics = "text"}};
  pm_arena_init(&t.arena, PM_MAX_COMPILE_BYTES);
  bool done = false;
  PmStatus *st = pm_options_parse(&t.arena, argc, argv, &t.opt, &done);
  if (!st && !done) {
    pm_interner_init(&t.names, &t.arena);
    pm_sources_init(&t.sources, &t.arena);
    t.diags = pm_diags_new(&t.arena, &t.sources);
    pm_diags_set_strict(t.diags, t.opt.strict);
    t.passes = (PmPassCtx){.diags = t.diags,
                           .sources = &t.sources,
                           .verify = true,
                           .dump_to = t.opt.dump_to,
                           .print_after = t.opt.print_ir_after,
                           .print_diff = t.opt.print_ir_diff};
    st = pm_launch_begin(&t);
    if (!st && !t.launch.idle) st = commands[t.opt.command](&t);
  }
  int code = finish(&t, st);
  pm_launch_close(&t, code);
  pm_arena_deinit(&t.arena);
  return code;
}

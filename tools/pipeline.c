#include "tools/pipeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "runtime/program_io.h"

#define MAX_PROGRAM_BYTES ((size_t)256 << 20)

void pm_tool_report(PmTool *t) {
  if (t->launch.rank == 0 || t->log) pm_tool_print_diags(t);
}

void pm_tool_print_diags(PmTool *t) {
  if (t->reported || !t->diags) return;
  t->reported = true;
  pm_diags_print(t->diags, strcmp(t->opt.diagnostics, "json") == 0, stderr);
}

PmStatus *pm_tool_file(const PmTool *t, int32_t index, const char **out_path) {
  if (t->opt.n_args <= index) {
    return PM_STATUS(PM_ERR_USAGE, "`pmodel %s` needs a file: `pmodel %s --help`", pm_command_name(t->opt.command),
                     pm_command_name(t->opt.command));
  }
  if (t->opt.n_args > index + 1) {
    return PM_STATUS(PM_ERR_USAGE, "`pmodel %s` takes one file; `%s` is left over", pm_command_name(t->opt.command),
                     t->opt.args[index + 1]);
  }
  *out_path = t->opt.args[index];
  return NULL;
}

PmFrontendOptions pm_tool_frontend(const PmTool *t) {
  const PmOptions *o = &t->opt;
  return (PmFrontendOptions){.plan = o->plan,
                             .mesh = o->mesh,
                             .shard = o->shard.items,
                             .n_shard = o->shard.n,
                             .set = o->set.items,
                             .n_set = o->set.n,
                             .seed = o->seed,
                             .steps = t->opt.command == PM_CMD_verify ? 0 : o->steps,  // there: steps to compare
                             .data = o->data.items,
                             .n_data = o->data.n,
                             .trains = o->command == PM_CMD_train || o->command == PM_CMD_compile};
}

PmStatus *pm_tool_read(PmTool *t, const char *path, size_t limit, char **out_data, size_t *out_len) {
  FILE *f = fopen(path, "rb");
  if (!f) return PM_STATUS(PM_ERR_ENVIRONMENT, "cannot read `%s`: %s", path, strerror(errno));
  PmBuf text;
  pm_buf_init(&text);
  char block[1 << 16];
  PmStatus *st = NULL;
  size_t n;
  do {
    n = fread(block, 1, sizeof block, f);
    if (text.len + n > limit) {
      st = PM_STATUS(PM_ERR_LIMIT, "`%s` is larger than %zu bytes", path, limit);
      goto done;
    }
    pm_buf_put(&text, block, n);
  } while (n == sizeof block);
  if (ferror(f)) {
    st = PM_STATUS(PM_ERR_ENVIRONMENT, "cannot read `%s`: %s", path, strerror(errno));
    goto done;
  }
  *out_len = text.len;
  *out_data = pm_arena_alloc(&t->arena, text.len + 1);
  if (text.len > 0) memcpy(*out_data, text.data, text.len);
done:
  pm_buf_deinit(&text);
  fclose(f);
  return st;
}

static PmStatus *write_through(const char *path, const void *data, size_t len) {
  FILE *f = fopen(path, "wb");
  if (!f) return PM_STATUS(PM_ERR_ENVIRONMENT, "cannot write `%s`: %s", path, strerror(errno));
  bool ok = fwrite(data, 1, len, f) == len;
  if (fclose(f) != 0) ok = false;
  return ok ? NULL : PM_STATUS(PM_ERR_ENVIRONMENT, "cannot write `%s`: %s", path, strerror(errno));
}

PmStatus *pm_tool_write(const char *path, const void *data, size_t len) {
  if (strcmp(path, "-") == 0) {
    fwrite(data, 1, len, stdout);
    return NULL;
  }
  struct stat info;
  bool there = stat(path, &info) == 0;
  // A device or a pipe is written to, never replaced.
  if (there && !S_ISREG(info.st_mode)) return write_through(path, data, len);
  // What a link points to is replaced, not the link.
  char *target = there ? realpath(path, NULL) : NULL;
  const char *to = target ? target : path;
  PmBuf temp;
  pm_buf_init(&temp);
  pm_buf_printf(&temp, "%s.%ld.tmp", to, (long)getpid());
  PmStatus *st = NULL;
  FILE *f = fopen(pm_buf_str(&temp), "wb");
  if (!f) {
    st = PM_STATUS(PM_ERR_ENVIRONMENT, "cannot write `%s`: %s", path, strerror(errno));
    goto done;
  }
  bool ok = fwrite(data, 1, len, f) == len;
  if (there && fchmod(fileno(f), info.st_mode & 07777) != 0) ok = false;
  if (fclose(f) != 0) ok = false;
  if (!ok || rename(pm_buf_str(&temp), to) != 0) {
    st = PM_STATUS(PM_ERR_ENVIRONMENT, "cannot write `%s`: %s", path, strerror(errno));
    remove(pm_buf_str(&temp));
  }
done:
  free(target);
  pm_buf_deinit(&temp);
  return st;
}

PmStatus *pm_tool_is_program(const char *path, bool *out_is) {
  *out_is = false;
  FILE *f = fopen(path, "rb");
  if (!f) return PM_STATUS(PM_ERR_ENVIRONMENT, "cannot read `%s`: %s", path, strerror(errno));
  char head[sizeof PM_PRUN_TEXT] = {0};
  size_t n = fread(head, 1, sizeof head - 1, f);
  bool failed = ferror(f) != 0;
  fclose(f);
  if (failed) return PM_STATUS(PM_ERR_ENVIRONMENT, "cannot read `%s`: %s", path, strerror(errno));
  size_t magic = sizeof PM_PRUN_MAGIC - 1;
  *out_is = (n >= magic && memcmp(head, PM_PRUN_MAGIC, magic) == 0) || strcmp(head, PM_PRUN_TEXT) == 0;
  return NULL;
}

PmStatus *pm_tool_check_print_after(const PmTool *t) {
  const char *name = t->opt.print_ir_after;
  static const char *const words[] = {"all", "changed", "frontend"};
  bool known = !name || pm_pass_find(name);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) known = known || strcmp(name, words[i]) == 0;
  if (known) return NULL;
  PmBuf names;
  pm_buf_init(&names);
  for (int32_t i = 0; pm_pass_at(i); i++) pm_buf_printf(&names, ", %s", pm_pass_at(i)->name);
  PmStatus *st = PM_STATUS(PM_ERR_USAGE, "`--print-ir-after` has no pass `%s`: all, changed, frontend%s", name,
                           pm_buf_str(&names));
  pm_buf_deinit(&names);
  return st;
}

PmStatus *pm_tool_unroll(PmTool *t, PmModule *m) {
  return t->opt.unroll ? pm_passes_run(&t->passes, m, "unroll") : NULL;
}

PmStatus *pm_tool_module(PmTool *t, const char *path, const char *passes, PmModule **out) {
  PM_TRY(pm_tool_check_print_after(t));
  bool is_program = false;
  PM_TRY(pm_tool_is_program(path, &is_program));
  if (is_program) {
    return PM_STATUS(PM_ERR_USAGE, "`%s` is a run plan; this needs the model that it was compiled from", path);
  }
  PmFrontendOptions options = pm_tool_frontend(t);
  PM_TRY(pm_frontend_compile(&t->arena, &t->names, &t->sources, t->diags, path, &options, out));
  int32_t errors = pm_diags_errors(t->diags);
  if (errors > 0) return PM_STATUS(PM_ERR_INPUT, "%d errors", errors);
  PM_TRY(pm_passes_dump(&t->passes, *out, "frontend"));
  PM_TRY(pm_tool_unroll(t, *out));
  return pm_passes_run(&t->passes, *out, passes);
}

static PmStatus *refuse_model_options(const PmTool *t) {
  const PmOptions *o = &t->opt;
  const char *flag = o->plan      ? "--plan"
                     : o->mesh    ? "--mesh"
                     : o->shard.n ? "--shard"
                     : o->set.n   ? "--set"
                     : o->unroll  ? "--unroll"
                     : o->dump_to ? "--dump-to"
                                  : NULL;
  if (!flag) return NULL;
  return PM_STATUS(PM_ERR_USAGE, "`%s` needs a model: a run plan is compiled already", flag);
}

static PmStatus *read_program(PmTool *t, const char *path, PmProgram **out) {
  PM_TRY(refuse_model_options(t));
  char *data = NULL;
  size_t len = 0;
  PM_TRY(pm_tool_read(t, path, MAX_PROGRAM_BYTES, &data, &len));
  PmStatus *st = pm_program_read(&t->arena, path, data, len, out);
  if (pm_status_code(st) != PM_ERR_CORRUPTION) {
    PM_TRY(st);
    if (t->opt.steps > 0) (*out)->steps = t->opt.steps;
    if (t->opt.seed >= 0) (*out)->seed = (uint64_t)t->opt.seed;
    return NULL;
  }
  // A damaged file is wrong input; exit code 82 is kept for a machine that computes wrongly.
  PmStatus *input = PM_STATUS(PM_ERR_INPUT, "%s", pm_status_message(st));
  pm_status_drop(st);
  return input;
}

PmStatus *pm_tool_codegen(PmTool *t, const PmModule *m, PmProgram **out) {
  PM_TRY(pm_codegen(&t->arena, m, out));
  return pm_program_validate(*out);
}

PmStatus *pm_tool_program(PmTool *t, const char *path, PmProgram **out, PmModule **out_module) {
  if (out_module) *out_module = NULL;
  bool is_program = false;
  PM_TRY(pm_tool_is_program(path, &is_program));
  if (is_program) return read_program(t, path, out);
  PmModule *m = NULL;
  PM_TRY(pm_tool_module(t, path, PM_DEFAULT_PASSES, &m));
  if (out_module) *out_module = m;
  return pm_tool_codegen(t, m, out);
}

PmStatus *pm_tool_check_ranks(const PmTool *t, const PmProgram *p) {
  int64_t want = t->opt.ranks, ranks = pm_program_ranks(p);
  if (t->launch.transport && t->launch.size != ranks) {
    return PM_STATUS(PM_ERR_USAGE,
                     "%s started %" PRId64 " processes, but the plan has %" PRId64 " rank%s: start %" PRId64
                     ", or give `--mesh` sizes whose product is %" PRId64,
                     t->launch.by, t->launch.size, ranks, ranks == 1 ? "" : "s", ranks, t->launch.size);
  }
  if (want == 0 || want == ranks) return NULL;
  if (p->n_mesh == 0) {
    return PM_STATUS(PM_ERR_USAGE,
                     "`--ranks %" PRId64
                     "` needs a plan: without `--plan` or `--mesh` there is one rank, which no rule "
                     "divides anything over",
                     want);
  }
  PmBuf mesh;
  pm_buf_init(&mesh);
  for (int32_t i = 0; i < p->n_mesh; i++) {
    pm_buf_printf(&mesh, "%s%s=%" PRId64, i ? "," : "", p->mesh_name[i], p->mesh_size[i]);
  }
  PmStatus *st = PM_STATUS(PM_ERR_USAGE,
                           "`--ranks %" PRId64 "` does not fit the mesh %s, which has %" PRId64
                           " ranks: give `--mesh` sizes whose product is %" PRId64 ", or leave `--ranks` out",
                           want, pm_buf_str(&mesh), ranks, want);
  pm_buf_deinit(&mesh);
  return st;
}

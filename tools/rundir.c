#include "tools/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/pipeline.h"
#include "tools/show.h"

static PmStatus *cannot(const char *what, const char *path) {
  return PM_STATUS(PM_ERR_ENVIRONMENT, "cannot %s `%s`: %s", what, path, strerror(errno));
}

static const char *inside(PmTool *t, const char *dir, const char *name) {
  return pm_arena_printf(&t->arena, "%s/%s", dir, name);
}

static void put_meta(const PmTool *t, const char *model, const PmProgram *p, PmBuf *out) {
  char started[32] = "";
  time_t now = time(NULL);
  struct tm utc;
  if (gmtime_r(&now, &utc)) strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &utc);
  PmJson j;
  pm_json_init(&j, out, true);
  pm_json_object(&j);
  pm_json_put_str(&j, "file", model);
  pm_json_put_str(&j, "model", p->model);
  pm_json_put_str(&j, "plan", p->plan);
  pm_json_key(&j, "mesh");
  pm_json_object(&j);
  for (int32_t i = 0; i < p->n_mesh; i++) pm_json_put_i64(&j, p->mesh_name[i], p->mesh_size[i]);
  pm_json_end_object(&j);
  pm_json_put_i64(&j, "ranks", pm_program_ranks(p));
  pm_json_put_str(&j, "device", t->opt.target);
  pm_json_put_i64(&j, "steps", p->steps);
  pm_json_put_i64(&j, "seed", (int64_t)p->seed);
  pm_json_put_i64(&j, "arena_bytes", p->arena_bytes);
  pm_json_put_str(&j, "started", started);
  pm_json_end_object(&j);
  pm_buf_putc(out, '\n');
}

static PmStatus *write_files(PmTool *t, const char *dir, const char *model, const PmProgram *p) {
  PmBuf text;
  pm_buf_init(&text);
  put_meta(t, model, p, &text);
  PmStatus *st = pm_tool_write(inside(t, dir, "meta.json"), pm_buf_str(&text), text.len);
  pm_buf_clear(&text);
  pm_program_write(p, &text);
  if (!st) st = pm_tool_write(inside(t, dir, "run.prun"), text.data, text.len);
  pm_buf_deinit(&text);
  if (st) return st;
  bool is_program;
  PM_TRY(pm_tool_is_program(model, &is_program));
  if (is_program) return NULL;
  char *source;
  size_t len;
  PM_TRY(pm_tool_read(t, model, PM_MAX_FILE_BYTES, &source, &len));
  return pm_tool_write(inside(t, dir, "model.pmodel"), source, len);
}

static PmStatus *holds_a_run(const char *dir) {
  return PM_STATUS(PM_ERR_USAGE, "`%s` holds a run already: give `--out` another folder", dir);
}

// What a rank that is not the first prints goes here.
static PmStatus *open_log(PmTool *t, const char *dir) {
  char name[64];
  snprintf(name, sizeof name, "log.rank%lld.txt", (long long)t->launch.rank);
  const char *path = inside(t, dir, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0 && errno == EEXIST) return holds_a_run(dir);
  if (fd < 0) return cannot("write", path);
  fflush(stdout);
  bool ok = dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0;
  close(fd);
  if (!ok) return cannot("write", path);
  t->log = true;
  return NULL;
}

PmStatus *pm_run_dir_open(PmTool *t, const char *dir, const char *model, const PmProgram *p, PmRunDir *out) {
  *out = (PmRunDir){.path = dir};
  if (!dir) return NULL;
  if (mkdir(dir, 0777) != 0 && errno != EEXIST) return cannot("make folder", dir);
  if (t->launch.rank > 0) return open_log(t, dir);
  const char *metrics = inside(t, dir, "metrics.jsonl");
  if (access(metrics, F_OK) == 0) return holds_a_run(dir);
  PM_TRY(write_files(t, dir, model, p));
  out->metrics = fopen(metrics, "wx");
  return out->metrics ? NULL : cannot("write", metrics);
}

PmStatus *pm_run_dir_metrics(const PmRunDir *d, const char *line) {
  if (!d->metrics) return NULL;
  // One line a step reaches the disk's owner at once: whoever watches the run reads whole lines.
  if (fprintf(d->metrics, "%s\n", line) < 0 || fflush(d->metrics) != 0) return cannot("write metrics of", d->path);
  return NULL;
}

PmStatus *pm_run_dir_close(PmRunDir *d) {
  FILE *f = d->metrics;
  d->metrics = NULL;
  return f && fclose(f) != 0 ? cannot("write metrics of", d->path) : NULL;
}

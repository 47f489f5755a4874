// What a process holds in memory at its fullest, by the kernel's account, against what was predicted: the arenas of all
// ranks, and what the session reports as outside of them. A run on the null device is what the process holds anyway.
//
// Each measurement is a process of its own, which reads a run plan: compiling one takes more memory than running it.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "models.h"
#include "tools/pipeline.h"

#define ALLOWED_BYTES (8 << 20)
#define NULL_OUTSIDE_BYTES (1 << 20)

typedef struct Resident {
  long long peak, outside;  // bytes
} Resident;

// ---- the child -----------------------------------------------------------------------------------------------------
static long long peak_bytes(void) {
  FILE *f = fopen("/proc/self/status", "r");
  char line[256];
  long long kib = -1;
  while (f && fgets(line, sizeof line, f)) {
    if (strncmp(line, "VmHWM:", 6) == 0) kib = atoll(line + 6);
  }
  if (f) fclose(f);
  return kib * 1024;
}

static PmStatus *run_all(PmTool *t, const char *path, Resident *out) {
  PmProgram *p;
  PmRun r;
  PmSessionMemory memory;
  PM_TRY(pm_tool_program(t, path, &p, NULL));
  PM_TRY(pm_run_open(t, p, false, &r));
  PM_TRY(pm_run_open_data(&r));
  for (int64_t step = 0; step < 3; step++) PM_TRY(pm_run_step(&r, step));
  PM_TRY(pm_session_run(r.session, PM_ENTRY_EVAL));
  pm_session_memory(r.session, &memory);
  *out = (Resident){.peak = peak_bytes(), .outside = memory.outside_bytes};
  pm_run_close(&r);
  return NULL;
}

static int child(const char *path, const char *device) {
  PmTool t = {.opt = {.command = PM_CMD_train, .target = device, .seed = -1, .threads = 1, .diagnostics = "text"}};
  Resident r = {0};
  pm_arena_init(&t.arena, 0);
  PmStatus *st = run_all(&t, path, &r);
  if (st) pm_status_print(st, stderr);
  printf("%lld %lld\n", r.peak, r.outside);
  pm_arena_deinit(&t.arena);
  return (int)pm_status_code(st);
}

// ---- the parent ----------------------------------------------------------------------------------------------------
static Resident measure(const char *path, const char *device) {
  int fds[2];
  assert_int_equal(pipe(fds), 0);
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    dup2(fds[1], STDOUT_FILENO);
    execl("/proc/self/exe", "memory_resident", path, device, (char *)NULL);
    _exit(127);
  }
  close(fds[1]);
  Resident r = {0};
  FILE *f = fdopen(fds[0], "r");
  int read = fscanf(f, "%lld %lld", &r.peak, &r.outside);
  fclose(f);
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_int_equal(read, 2);
  return r;
}

static void resident_is_predicted(void **state) {
  (void)state;
  for (int i = 0; i < N_EXAMPLES; i++) {
    const Example *e = &examples[i];
    Compiled c;
    PmBuf bytes;
    char path[64];
    example_compile(e, &c);
    pm_buf_init(&bytes);
    pm_program_write(c.p, &bytes);
    snprintf(path, sizeof path, "resident_%s_%lld.prun", e->name, (long long)e->ranks);
    must(pm_tool_write(path, bytes.data, bytes.len));
    Resident cpu = measure(path, "cpu"), null = measure(path, "null");
    unlink(path);
    long long arenas = c.p->arena_bytes * e->ranks, used = cpu.peak - null.peak;
    print_message("  %-28s %9lld bytes over a null run = arenas %9lld + outside %9lld + %lld\n", example_text(e), used,
                  arenas, cpu.outside, used - arenas - cpu.outside);
    assert_true(null.outside <= NULL_OUTSIDE_BYTES);
    assert_true(used <= arenas + cpu.outside + ALLOWED_BYTES);
    pm_buf_deinit(&bytes);
    example_free(&c);
  }
}

int main(int argc, char **argv) {
  if (argc == 3) return child(argv[1], argv[2]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(resident_is_predicted)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// The compiler around the code: vectors in the IR, sharing, the object cache, arguments that share bytes, options.
#include "run_kernel.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

// y[i] = tanh(x[i]) over [rows, cols], or y[r] = sum over c of exp(x[r, c]).
static PmKernel *pointwise(PmArena *arena, const char *name) {
  PmKBuilder kb;
  pm_kb_init(&kb, arena, name, false, PM_VEC_OUTER);
  const int32_t row = pm_kb_outer(&kb, 16, PM_KA_GRID), col = pm_kb_outer(&kb, 100, PM_KA_GRID);
  const int32_t x = pm_kb_arg(&kb, PM_K_F32, 0, true, false), y = pm_kb_arg(&kb, PM_K_F32, 0, false, true);
  PmKAddr at = pm_kaddr();
  at.stride[row] = 100;
  at.stride[col] = 1;
  pm_kb_store(&kb, y, &at, pm_kb_scalar_fn(&kb, PM_S_tanh, PM_K_F32, pm_kb_load(&kb, x, &at), -1, -1), false);
  return pm_kb_finish(&kb);
}

static PmKernel *row_sum(PmArena *arena, const char *name, int64_t cols) {
  PmKBuilder kb;
  pm_kb_init(&kb, arena, name, false, PM_VEC_LOOP);
  const int32_t row = pm_kb_outer(&kb, 16, PM_KA_GRID);
  const int32_t x = pm_kb_arg(&kb, PM_K_F32, 0, true, false), y = pm_kb_arg(&kb, PM_K_F32, 0, false, true);
  PmKAddr in = pm_kaddr(), out = pm_kaddr();
  const int32_t col = pm_kb_loop(&kb, cols);
  in.stride[row] = cols;
  in.stride[col] = 1;
  out.stride[row] = 1;
  const int32_t e = pm_kb_scalar_fn(&kb, PM_S_exp, PM_K_F32, pm_kb_load(&kb, x, &in), -1, -1);
  const int32_t sum = pm_kb_acc(&kb, PM_SUM, PM_K_F32, e);
  pm_kb_end(&kb);
  pm_kb_store(&kb, y, &out, sum, false);
  return pm_kb_finish(&kb);
}

// x[i + 1] = x[i] + x[i + 1], in order, the two through arguments of their own.
static PmKernel *prefix_sum(PmArena *arena) {
  PmKBuilder kb;
  pm_kb_init(&kb, arena, "prefix_sum", false, PM_VEC_LOOP);
  const int32_t x = pm_kb_arg(&kb, PM_K_F32, 101 * 4, true, false), y = pm_kb_arg(&kb, PM_K_F32, 101 * 4, true, true);
  PmKAddr at = pm_kaddr(), next = pm_kaddr();
  const int32_t i = pm_kb_loop(&kb, 100);
  at.stride[i] = next.stride[i] = next.base = 1;
  pm_kb_store(&kb, y, &next, pm_kb_load(&kb, x, &at), true);
  pm_kb_end(&kb);
  return pm_kb_finish(&kb);
}

static void print_ok(const PmLlvmOptions *opts, const PmKernel *k, PmBuf *out) {
  PmStatus *st = pm_llvm_print(opts, k, out);
  if (st) fail_msg("%s", pm_status_message(st));
}

static void test_ir_has_vectors(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmKernel *kernels[] = {pointwise(&arena, "p"), row_sum(&arena, "r", 100)};
  for (int32_t i = 0; i < 2; i++) {
    for (int32_t bits = 128; bits <= 256; bits *= 2) {
      const PmLlvmOptions opts = {.vector_bits = bits, .opt_level = 2};
      PmBuf text;
      pm_buf_init(&text);
      print_ok(&opts, kernels[i], &text);
      const char *wide = bits == 256 ? "<8 x float>" : "<4 x float>",
                 *narrow = bits == 256 ? "<4 x float>" : "<8 x float>";
      assert_non_null(strstr(pm_buf_str(&text), wide));
      assert_true(i == 1 || !strstr(pm_buf_str(&text), narrow));  // a sum's end halves its vector
      assert_non_null(strstr(pm_buf_str(&text), "noalias"));
      assert_null(strstr(pm_buf_str(&text), " fast "));
      assert_null(strstr(pm_buf_str(&text), "contract"));
      pm_buf_deinit(&text);
    }
  }
  pm_arena_deinit(&arena);
}

static void test_same_kernels_share_code(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmKernel *host = row_sum(&arena, "h", 7);
  host->host = true;
  PmKernel *kernels[] = {pointwise(&arena, "a"), row_sum(&arena, "b", 100), pointwise(&arena, "c"), host,
                         row_sum(&arena, "d", 101)};
  PmProgram *p = program_of(&arena, kernels, 5);
  PmKernelCompiler *c = compiler_new(0, 2, NULL);
  PmKernelFn fns[5], again[5];
  compile_ok(c, p, fns);
  assert_true(fns[0] && fns[0] == fns[2]);
  assert_true(fns[1] && fns[4] && fns[1] != fns[4]);
  assert_true(fns[3] == NULL);
  compile_ok(c, p, again);
  assert_memory_equal(fns, again, sizeof fns);
  c->destroy(c);
  pm_arena_deinit(&arena);
}

static void test_shared_bytes_keep_their_order(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmKernel *k = prefix_sum(&arena);
  PmProgram *p = program_of(&arena, &k, 1);
  p->entries[PM_ENTRY_STEP].steps[0].u.kernel->args[1] = p->entries[PM_ENTRY_STEP].steps[0].u.kernel->args[0];
  PmKernelCompiler *c = compiler_new(0, 2, NULL);
  PmKernelFn fn;
  compile_ok(c, p, &fn);
  float got[101], want[101];
  for (int32_t i = 0; i < 101; i++) got[i] = want[i] = (float)(i % 7) * 0.3f;
  fn((char *[]){(char *)got, (char *)got}, NULL, 0, 1);
  pm_kernel_interp(k, (char *[]){(char *)want, (char *)want}, NULL, 0, 1);
  assert_memory_equal(got, want, sizeof got);
  c->destroy(c);
  pm_arena_deinit(&arena);
}

// ---- the object cache ----------------------------------------------------------------------------------------------
typedef struct Entries {
  int32_t n;
  PmBuf paths[8];
} Entries;

static void list(const char *dir, Entries *out) {
  out->n = 0;
  DIR *d = opendir(dir);
  assert_non_null(d);
  for (struct dirent *e; (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    assert_true(out->n < 8);
    pm_buf_init(&out->paths[out->n]);
    pm_buf_printf(&out->paths[out->n++], "%s/%s", dir, e->d_name);
  }
  closedir(d);
}

static void drop(Entries *entries, bool unlink_too) {
  for (int32_t i = 0; i < entries->n; i++) {
    if (unlink_too) unlink(pm_buf_str(&entries->paths[i]));
    pm_buf_deinit(&entries->paths[i]);
  }
}

static void run_cached(const char *dir) {
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmKernel *kernels[] = {pointwise(&arena, "a"), row_sum(&arena, "b", 100)};
  PmProgram *p = program_of(&arena, kernels, 2);
  PmKernelCompiler *c = compiler_new(256, 2, dir);
  PmKernelFn fns[2];
  compile_ok(c, p, fns);
  for (int32_t i = 0; i < 2; i++) {
    char **got = args_new(kernels[i], 3), **want = args_new(kernels[i], 3);
    int32_t arg;
    int64_t element;
    fns[i](got, NULL, 0, 16);
    pm_kernel_interp(kernels[i], want, NULL, 0, 16);
    assert_true(args_equal(kernels[i], got, want, &arg, &element));
    args_free(kernels[i], got);
    args_free(kernels[i], want);
  }
  c->destroy(c);
  pm_arena_deinit(&arena);
}

static void *run_cached_thread(void *dir) {
  for (int32_t i = 0; i < 3; i++) run_cached(dir);
  return NULL;
}

static void poke(const char *path, long at, int byte) {
  FILE *f = fopen(path, "r+b");
  assert_non_null(f);
  assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
  fputc(byte, f);
  fclose(f);
}

static time_t stamp(const char *path, time_t to) {
  struct stat st;
  assert_int_equal(stat(path, &st), 0);
  const struct timespec times[] = {{.tv_sec = to}, {.tv_sec = to}};
  if (to) assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
  return st.st_mtime;
}

static void test_cache(void **state) {
  (void)state;
  char dir[] = "/tmp/pm-objects-XXXXXX";
  assert_non_null(mkdtemp(dir));
  run_cached(dir);
  Entries e;
  list(dir, &e);
  assert_int_equal(e.n, 2);
  const char *path = pm_buf_str(&e.paths[0]);
  stamp(path, 1000);
  run_cached(dir);
  assert_int_equal(stamp(path, 1000), 1000);  // a hit writes nothing
  poke(path, 100, 0xee);
  stamp(path, 1000);
  run_cached(dir);
  assert_int_not_equal(stamp(path, 1000), 1000);  // a damaged entry is made again
  poke(path, -3, 0xee);
  stamp(path, 1000);
  run_cached(dir);
  assert_int_not_equal(stamp(path, 1000), 1000);
  assert_int_equal(truncate(path, 200), 0);
  stamp(path, 1000);
  run_cached(dir);
  assert_int_not_equal(stamp(path, 1000), 1000);
  assert_int_equal(truncate(path, 0), 0);
  run_cached(dir);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(link(pm_buf_str(&e.paths[1]), path), 0);  // a whole entry under another key
  stamp(path, 1000);
  run_cached(dir);
  assert_int_not_equal(stamp(path, 1000), 1000);
  assert_int_equal(chmod(path, 0666), 0);  // others may have written it
  stamp(path, 1000);
  run_cached(dir);
  assert_int_not_equal(stamp(path, 1000), 1000);
  drop(&e, true);
  pthread_t threads[2];
  for (int32_t i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_cached_thread, dir), 0);
  for (int32_t i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  list(dir, &e);
  assert_int_equal(e.n, 2);  // and no temporary file
  drop(&e, true);
  assert_int_equal(rmdir(dir), 0);
  run_cached("/dev/null/no such folder");
}

static void test_options(void **state) {
  (void)state;
  const PmLlvmOptions bad[] = {{.vector_bits = 100}, {.opt_level = 4}, {.opt_level = -1}};
  for (int32_t i = 0; i < 3; i++) {
    PmKernelCompiler *c = NULL;
    PmStatus *st = pm_llvm_compiler_create(&bad[i], &c);
    assert_int_equal(pm_status_code(st), PM_ERR_USAGE);
    pm_status_drop(st);
  }
}

// Instructions that nothing needs go, with their loops and axes.
static void test_builder_drops_what_is_unused(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmKBuilder kb;
  pm_kb_init(&kb, &arena, "k", false, PM_VEC_LOOP);
  const int32_t row = pm_kb_outer(&kb, 4, PM_KA_GRID);
  const int32_t x = pm_kb_arg(&kb, PM_K_F32, 0, true, false), y = pm_kb_arg(&kb, PM_K_F32, 0, false, true);
  PmKAddr at = pm_kaddr(), out = pm_kaddr();
  const int32_t dead = pm_kb_loop(&kb, 9);
  at.stride[row] = 10;
  at.stride[dead] = 1;
  pm_kb_acc(&kb, PM_SUM, PM_K_F32, pm_kb_load(&kb, x, &at));
  pm_kb_end(&kb);
  const int32_t live = pm_kb_loop(&kb, 10);
  at.stride[dead] = 0;
  at.stride[live] = 1;
  const int32_t v = pm_kb_load(&kb, x, &at);
  const int32_t two = pm_kb_const(&kb, PM_K_F32, 2);
  const int32_t square = pm_kb_op(&kb, PM_I_MUL, PM_K_F32, v, v, -1);
  assert_int_equal(square, pm_kb_op(&kb, PM_I_MUL, PM_K_F32, v, v, -1));
  pm_kb_op(&kb, PM_I_ADD, PM_K_F32, square, two, -1);
  const int32_t sum = pm_kb_acc(&kb, PM_SUM, PM_K_F32, square);
  pm_kb_end(&kb);
  out.stride[row] = 1;
  pm_kb_store(&kb, y, &out, sum, false);
  const PmKernel *k = pm_kb_finish(&kb);
  static const uint8_t ops[] = {PM_I_LOOP, PM_I_LOAD, PM_I_MUL, PM_I_ACC_SUM, PM_I_END, PM_I_STORE};
  assert_int_equal(k->n_instrs, 6);
  for (int32_t i = 0; i < 6; i++) assert_int_equal(k->instrs[i].op, ops[i]);
  assert_int_equal(k->instrs[0].arg, 1);
  assert_int_equal(k->instrs[1].stride[1], 1);
  assert_int_equal(k->instrs[1].stride[2], 0);
  assert_int_equal(k->args[0].bytes, 160);
  assert_int_equal(k->args[1].bytes, 16);
  pm_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ir_has_vectors),
      cmocka_unit_test(test_same_kernels_share_code),
      cmocka_unit_test(test_shared_bytes_keep_their_order),
      cmocka_unit_test(test_cache),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_builder_drops_what_is_unused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

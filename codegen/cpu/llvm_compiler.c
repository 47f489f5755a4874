#include "codegen/cpu/llvm_compiler.h"

#include <inttypes.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "codegen/cpu/llvm_target.h"

#define MAX_THREADS 2  // what pays beside the ranks of the same machine
#define SYMBOL_CHARS 64

// One compiled kernel; kernels of one key share it.
typedef struct Code {
  PmObjectKey key;
  const PmKernel *kernel;  // while it is compiled
  PmLlvmAlias alias;
  char symbol[SYMBOL_CHARS];
  PmBuf object;
  PmStatus *failed;
  PmKernelFn fn;           // NULL until linked
} Code;

typedef struct LlvmCompiler {
  PmKernelCompiler base;
  PmLlvmTarget target;
  char *cache_dir;         // NULL: none
  LLVMOrcLLJITRef jit;
  PmBuf messages;          // what the linker reported
  PmArena arena;
  Code *codes;
  int32_t n_codes, cap_codes;
} LlvmCompiler;

typedef struct Jobs {
  LlvmCompiler *c;
  int32_t end;
  atomic_int next;
} Jobs;

static PmStatus *llvm_compile(PmKernelCompiler *self, const PmProgram *p, PmKernelFn *out_fns);
static void llvm_destroy(PmKernelCompiler *self);

static PmStatus *orc_status(LLVMErrorRef err, const char *what, const PmBuf *messages) {
  if (!err) return NULL;
  char *text = LLVMGetErrorMessage(err);
  PmStatus *st = PM_STATUS(PM_ERR_INTERNAL, "%s: %s%s%s", what, text, messages->len ? "; " : "", pm_buf_str(messages));
  LLVMDisposeErrorMessage(text);
  return st;
}

// Without it ORC prints to stderr.
static void report(void *ctx, LLVMErrorRef err) {
  LlvmCompiler *c = ctx;
  char *text = LLVMGetErrorMessage(err);
  pm_buf_printf(&c->messages, "%s ", text);
  LLVMDisposeErrorMessage(text);
}

PmStatus *pm_llvm_compiler_create(const PmLlvmOptions *opts, PmKernelCompiler **out) {
  PmLlvmTarget target;
  PM_TRY(pm_llvm_target_init(&target, opts));
  LlvmCompiler *c = calloc(1, sizeof *c);
  if (!c) pm_memory_exhausted(sizeof *c, 0);
  c->base = (PmKernelCompiler){.name = "llvm", .compile = llvm_compile, .destroy = llvm_destroy};
  c->target = target;
  pm_arena_init(&c->arena, 0);
  pm_buf_init(&c->messages);
  if (opts->cache_dir) c->cache_dir = pm_arena_strdup(&c->arena, opts->cache_dir);
  PmStatus *st = orc_status(LLVMOrcCreateLLJIT(&c->jit, NULL), "LLVM's linker does not start", &c->messages);
  if (st) {
    c->jit = NULL;
    llvm_destroy(&c->base);
    return st;
  }
  LLVMOrcExecutionSessionSetErrorReporter(LLVMOrcLLJITGetExecutionSession(c->jit), report, c);
  *out = &c->base;
  return NULL;
}

static void llvm_destroy(PmKernelCompiler *self) {
  LlvmCompiler *c = (LlvmCompiler *)self;
  if (c->jit) LLVMConsumeError(LLVMOrcDisposeLLJIT(c->jit));
  for (int32_t i = 0; i < c->n_codes; i++) {
    pm_buf_deinit(&c->codes[i].object);
    pm_status_drop(c->codes[i].failed);
  }
  pm_llvm_target_deinit(&c->target);
  pm_buf_deinit(&c->messages);
  pm_arena_deinit(&c->arena);
  free(c);
}

// The index of the kernel's code, new or not.
static int32_t find_code(LlvmCompiler *c, const PmProgram *p, int32_t kernel) {
  const PmKernel *k = &p->kernels[kernel];
  PmLlvmAlias alias;
  pm_llvm_alias(p, kernel, &alias);
  const PmObjectKey key = pm_llvm_key(&c->target, k, &alias);
  for (int32_t i = 0; i < c->n_codes; i++)
    if (c->codes[i].key.lo == key.lo && c->codes[i].key.hi == key.hi) return i;
  c->codes = pm_grow(&c->arena, c->codes, c->n_codes, &c->cap_codes, sizeof *c->codes);
  Code *code = &c->codes[c->n_codes];
  *code = (Code){.key = key, .kernel = k, .alias = alias};
  pm_buf_init(&code->object);
  pm_buf_printf(&code->object, "pm_kernel_%016" PRIx64 "%016" PRIx64, key.hi, key.lo);
  memcpy(code->symbol, code->object.data, code->object.len + 1);
  pm_buf_clear(&code->object);
  return c->n_codes++;
}

static void make_object(const LlvmCompiler *c, Code *code) {
  if (c->cache_dir && pm_object_cache_read(c->cache_dir, code->key, &code->object)) return;
  code->failed = pm_llvm_object(&c->target, code->kernel, &code->alias, code->symbol, &code->object);
  if (c->cache_dir && !code->failed)
    pm_object_cache_write(c->cache_dir, code->key, code->object.data, code->object.len);
}

static void *work(void *arg) {
  Jobs *jobs = arg;
  for (;;) {
    const int32_t i = atomic_fetch_add(&jobs->next, 1);
    if (i >= jobs->end) return NULL;
    make_object(jobs->c, &jobs->c->codes[i]);
  }
}

static void make_objects(LlvmCompiler *c, int32_t first) {
  Jobs jobs = {.c = c, .end = c->n_codes, .next = first};
  pthread_t threads[MAX_THREADS];
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int32_t n = 0;
  while (n + 1 < MAX_THREADS && n + 1 < cores && n + 1 < c->n_codes - first &&
         pthread_create(&threads[n], NULL, work, &jobs) == 0)
    n++;
  work(&jobs);
  for (int32_t i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static PmStatus *link_code(LlvmCompiler *c, Code *code) {
  pm_buf_clear(&c->messages);
  LLVMMemoryBufferRef object =
      LLVMCreateMemoryBufferWithMemoryRangeCopy(code->object.data, code->object.len, code->symbol);
  pm_buf_deinit(&code->object);
  pm_buf_init(&code->object);
  LLVMErrorRef err = LLVMOrcLLJITAddObjectFile(c->jit, LLVMOrcLLJITGetMainJITDylib(c->jit), object);
  PM_TRY(orc_status(err, "LLVM's linker refuses a kernel", &c->messages));
  LLVMOrcExecutorAddress address;
  PM_TRY(orc_status(LLVMOrcLLJITLookup(c->jit, &address, code->symbol), "LLVM's linker fails", &c->messages));
  // ISO C has no cast from a number or object pointer to a function; POSIX has one representation for both.
  const uintptr_t bits = (uintptr_t)address;
  memcpy(&code->fn, &bits, sizeof code->fn);
  return NULL;
}

// Removes what a failed call left without code; what it linked stays usable.
static void drop_unlinked(LlvmCompiler *c) {
  while (c->n_codes > 0 && !c->codes[c->n_codes - 1].fn) {
    Code *code = &c->codes[--c->n_codes];
    pm_buf_deinit(&code->object);
    pm_status_drop(code->failed);
  }
}

static PmStatus *llvm_compile(PmKernelCompiler *self, const PmProgram *p, PmKernelFn *out_fns) {
  LlvmCompiler *c = (LlvmCompiler *)self;
  const int32_t first = c->n_codes;
  int32_t *code_of = calloc((size_t)p->n_kernels + 1, sizeof *code_of);
  if (!code_of) pm_memory_exhausted((size_t)p->n_kernels * sizeof *code_of, 0);
  for (int32_t i = 0; i < p->n_kernels; i++) code_of[i] = p->kernels[i].host ? -1 : find_code(c, p, i);
  make_objects(c, first);
  PmStatus *st = NULL;
  for (int32_t i = first; i < c->n_codes && !st; i++) {
    st = c->codes[i].failed;
    c->codes[i].failed = NULL;
    if (!st) st = link_code(c, &c->codes[i]);
    c->codes[i].kernel = NULL;
  }
  for (int32_t i = 0; i < p->n_kernels && !st; i++) out_fns[i] = code_of[i] < 0 ? NULL : c->codes[code_of[i]].fn;
  if (st) drop_unlinked(c);
  free(code_of);
  return st;
}

PmStatus *pm_llvm_print(const PmLlvmOptions *opts, const PmKernel *k, PmBuf *out) {
  PmLlvmTarget target;
  PM_TRY(pm_llvm_target_init(&target, opts));
  const PmLlvmAlias alias = pm_llvm_no_alias();
  PmStatus *st = pm_llvm_text(&target, k, &alias, "kernel", out);
  pm_llvm_target_deinit(&target);
  return st;
}

#include "codegen/cpu/llvm_target.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/TargetMachine.h>
#include <pthread.h>
#include <string.h>

#include "base/hash.h"

// Part of every key: a new number wherever the same kernel gives other code.
#define PRINTER_VERSION 1

static void register_target(void) {
  LLVMInitializeNativeTarget();
  LLVMInitializeNativeAsmPrinter();
}

PmStatus *pm_llvm_target_init(PmLlvmTarget *t, const PmLlvmOptions *opts) {
  // LLVM's table of targets is one per process.
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const int32_t bits = opts->vector_bits;
  if (bits != 0 && bits != 128 && bits != 256 && bits != 512)
    return PM_STATUS(PM_ERR_USAGE, "vectors of %d bits: 128, 256, 512, or 0 for what the processor has", bits);
  if (opts->opt_level < 0 || opts->opt_level > 3)
    return PM_STATUS(PM_ERR_USAGE, "optimisation level %d: 0 to 3", opts->opt_level);
  pthread_once(&once, register_target);
  *t = (PmLlvmTarget){.triple = LLVMGetDefaultTargetTriple(),
                      .cpu = LLVMGetHostCPUName(),
                      .features = LLVMGetHostCPUFeatures(),
                      .opt_level = opts->opt_level};
  const bool wide = strstr(t->features, "+avx2") != NULL;
  t->width = (bits ? bits : wide ? 256 : 128) / 32;
  return NULL;
}

void pm_llvm_target_deinit(PmLlvmTarget *t) {
  LLVMDisposeMessage(t->triple);
  LLVMDisposeMessage(t->cpu);
  LLVMDisposeMessage(t->features);
}

PmStatus *pm_llvm_describe(PmArena *arena, PmLlvmInfo *out) {
  PmLlvmTarget t;
  PM_TRY(pm_llvm_target_init(&t, &(PmLlvmOptions){0}));
  unsigned major, minor, patch;
  LLVMGetVersion(&major, &minor, &patch);
  *out = (PmLlvmInfo){.version = pm_arena_printf(arena, "%u.%u.%u", major, minor, patch),
                      .triple = pm_arena_strdup(arena, t.triple),
                      .cpu = pm_arena_strdup(arena, t.cpu),
                      .vector_bits = t.width * 32};
  pm_llvm_target_deinit(&t);
  return NULL;
}

static void put_i64(PmBuf *b, int64_t v) { pm_buf_put(b, &v, sizeof v); }

static void put_instr(PmBuf *b, const PmInstr *in) {
  const int64_t fields[] = {in->op,     in->dtype, in->arg, in->a,          in->b,         in->c,
                            in->extent, in->base,  in->dyn, in->dyn_stride, in->dyn_extent};
  pm_buf_put(b, fields, sizeof fields);
  pm_buf_put(b, &in->number, sizeof in->number);
  pm_buf_put(b, in->stride, sizeof in->stride);
}

PmObjectKey pm_llvm_key(const PmLlvmTarget *t, const PmKernel *k, const PmLlvmAlias *alias) {
  PmBuf b;
  pm_buf_init(&b);
  pm_buf_printf(&b, "%d %s %s %s %d %d\n", PRINTER_VERSION, t->triple, t->cpu, t->features, t->width, t->opt_level);
  const int64_t counts[] = {k->vec, k->n_outer, k->n_args, k->n_scalars, k->n_instrs};
  pm_buf_put(&b, counts, sizeof counts);
  for (int32_t i = 0; i < k->n_outer; i++) {
    put_i64(&b, k->outer[i]);
    put_i64(&b, k->outer_kind[i]);
  }
  for (int32_t i = 0; i < k->n_args; i++) {
    put_i64(&b, k->args[i].dtype);
    put_i64(&b, alias->class_of[i]);
    put_i64(&b, alias->same_start[i]);
  }
  for (int32_t i = 0; i < k->n_instrs; i++) put_instr(&b, &k->instrs[i]);
  const PmObjectKey key = {pm_hash64(b.data, b.len, 0), pm_hash64(b.data, b.len, 1)};
  pm_buf_deinit(&b);
  return key;
}

PmLlvmAlias pm_llvm_no_alias(void) {
  PmLlvmAlias alias = {.same_start = {false}};
  for (int32_t i = 0; i < PM_KERNEL_MAX_ARGS; i++) alias.class_of[i] = (int8_t)i;
  return alias;
}

static bool overlap(const PmRange *a, const PmRange *b) {
  return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static void join(PmLlvmAlias *alias, int32_t n, int8_t a, int8_t b) {
  for (int32_t i = 0; i < n; i++)
    if (alias->class_of[i] == b) alias->class_of[i] = a;
}

// Calls fn for every call of the kernel.
typedef void CallFn(const PmKernel *k, const PmKernelCall *call, PmLlvmAlias *alias);
static void each_call(const PmProgram *p, int32_t kernel, CallFn *fn, PmLlvmAlias *alias) {
  for (int32_t e = 0; e < PM_ENTRY_COUNT; e++) {
    const PmEntry *entry = &p->entries[e];
    for (int32_t i = 0; entry->present && i < entry->n_steps; i++) {
      const PmStep *step = &entry->steps[i];
      if (step->kind == PM_STEP_KERNEL && step->u.kernel->kernel == kernel)
        fn(&p->kernels[kernel], step->u.kernel, alias);
    }
  }
}

static void join_overlapping(const PmKernel *k, const PmKernelCall *call, PmLlvmAlias *alias) {
  for (int32_t i = 0; i < k->n_args; i++)
    for (int32_t j = 0; j < i; j++)
      if ((k->args[i].writes || k->args[j].writes) && overlap(&call->args[i], &call->args[j]))
        join(alias, k->n_args, alias->class_of[j], alias->class_of[i]);
}

static void compare_starts(const PmKernel *k, const PmKernelCall *call, PmLlvmAlias *alias) {
  for (int32_t i = 0; i < k->n_args; i++)
    for (int32_t j = 0; j < i; j++)
      if (alias->class_of[i] == alias->class_of[j] && call->args[i].offset != call->args[j].offset)
        alias->same_start[alias->class_of[i]] = false;
}

void pm_llvm_alias(const PmProgram *p, int32_t kernel, PmLlvmAlias *out) {
  *out = pm_llvm_no_alias();
  memset(out->same_start, true, sizeof out->same_start);
  each_call(p, kernel, join_overlapping, out);
  each_call(p, kernel, compare_starts, out);
}

// ---- one kernel ----------------------------------------------------------------------------------------------------
static void keep_message(LLVMDiagnosticInfoRef info, void *ctx) {
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
  char *text = LLVMGetDiagInfoDescription(info);
  pm_buf_puts(ctx, text);
  LLVMDisposeMessage(text);
}

static PmStatus *machine_new(const PmLlvmTarget *t, LLVMTargetMachineRef *out) {
  static const LLVMCodeGenOptLevel levels[] = {LLVMCodeGenLevelNone, LLVMCodeGenLevelLess, LLVMCodeGenLevelDefault,
                                               LLVMCodeGenLevelAggressive};
  LLVMTargetRef target;
  char *why = NULL;
  if (LLVMGetTargetFromTriple(t->triple, &target, &why)) {
    PmStatus *st = PM_STATUS(PM_ERR_ENVIRONMENT, "LLVM has no target for %s: %s", t->triple, why);
    LLVMDisposeMessage(why);
    return st;
  }
  *out = LLVMCreateTargetMachine(target, t->triple, t->cpu, t->features, levels[t->opt_level], LLVMRelocPIC,
                                 LLVMCodeModelJITDefault);
  return *out ? NULL : PM_STATUS(PM_ERR_ENVIRONMENT, "LLVM has no machine %s for %s", t->cpu, t->triple);
}

static LLVMModuleRef module_new(LLVMContextRef ctx, const PmLlvmTarget *t, LLVMTargetMachineRef machine,
                                const PmKernel *k, const PmLlvmAlias *alias, const char *symbol) {
  LLVMModuleRef mod = LLVMModuleCreateWithNameInContext("kernel", ctx);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  LLVMSetModuleDataLayout(mod, layout);
  LLVMSetTarget(mod, t->triple);
  LLVMDisposeTargetData(layout);
  PmArena arena;
  pm_arena_init(&arena, 0);
  pm_llvm_emit(&arena, mod, k, alias, t->width, symbol);
  pm_arena_deinit(&arena);
  return mod;
}

static PmStatus *verified(LLVMModuleRef mod, const PmKernel *k) {
  char *why = NULL;
  PmStatus *st = NULL;
  if (LLVMVerifyModule(mod, LLVMReturnStatusAction, &why))
    st = PM_STATUS(PM_ERR_INTERNAL, "kernel %s gives malformed LLVM IR: %s", k->name, why);
  LLVMDisposeMessage(why);
  return st;
}

static PmStatus *object_of(LLVMTargetMachineRef machine, LLVMModuleRef mod, const PmKernel *k, const PmBuf *messages,
                           PmBuf *out) {
  LLVMMemoryBufferRef object = NULL;
  char *why = NULL;
  const bool failed = LLVMTargetMachineEmitToMemoryBuffer(machine, mod, LLVMObjectFile, &why, &object) != 0;
  PmStatus *st = NULL;
  if (failed || messages->len > 0)
    st = PM_STATUS(PM_ERR_INTERNAL, "kernel %s: no code: %s%s", k->name, why ? why : "", pm_buf_str(messages));
  else
    pm_buf_put(out, LLVMGetBufferStart(object), LLVMGetBufferSize(object));
  if (why) LLVMDisposeMessage(why);
  if (!failed) LLVMDisposeMemoryBuffer(object);
  return st;
}

static void print(LLVMModuleRef mod, PmBuf *out) {
  char *text = LLVMPrintModuleToString(mod);
  pm_buf_puts(out, text);
  LLVMDisposeMessage(text);
}

static PmStatus *generate(const PmLlvmTarget *t, const PmKernel *k, const PmLlvmAlias *alias, const char *symbol,
                          bool as_text, PmBuf *out) {
  LLVMTargetMachineRef machine;
  PM_TRY(machine_new(t, &machine));
  PmBuf messages;
  pm_buf_init(&messages);
  LLVMContextRef ctx = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(ctx, keep_message, &messages);
  LLVMModuleRef mod = module_new(ctx, t, machine, k, alias, symbol);
  PmStatus *st = verified(mod, k);
  if (!st && as_text) print(mod, out);
  if (!st && !as_text) st = object_of(machine, mod, k, &messages, out);
  LLVMDisposeModule(mod);
  LLVMContextDispose(ctx);
  pm_buf_deinit(&messages);
  LLVMDisposeTargetMachine(machine);
  return st;
}

PmStatus *pm_llvm_object(const PmLlvmTarget *t, const PmKernel *k, const PmLlvmAlias *alias, const char *symbol,
                         PmBuf *out) {
  return generate(t, k, alias, symbol, false, out);
}

PmStatus *pm_llvm_text(const PmLlvmTarget *t, const PmKernel *k, const PmLlvmAlias *alias, const char *symbol,
                       PmBuf *out) {
  return generate(t, k, alias, symbol, true, out);
}

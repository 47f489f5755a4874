// A session: a program with everything that it needs to run in this process. What tools use. Its ranks are threads of
// this process, all of them, or with a transport this process is one rank: then every rank makes the same calls in the
// same order, and what a session gives out is the same on all of them.
//
//   pm_session_create(p, &options, &s); pm_session_init(s);
//   for each step: pm_session_load(s, data, step); pm_session_run(s, PM_ENTRY_STEP); pm_session_output(s, ...);
//
// The program and the compiler must outlive the session. One thread uses a session at a time. After `create` and one
// run of each entry nothing allocates but failures. After a run that failed, destroy the session.
#ifndef PM_RUNTIME_SESSION_H
#define PM_RUNTIME_SESSION_H

#include "runtime/comm/transport.h"
#include "runtime/data.h"
#include "runtime/program.h"

typedef struct PmSession PmSession;

typedef struct PmSessionOptions {
  const char *device;          // "cpu", "interp", "null"
  int32_t threads;             // of each rank; 0: the machine's cores divided by the ranks
  PmKernelCompiler *compiler;  // NULL when the device needs none
  uint64_t seed;
  double warn_s, deadline_s;  // of a rank waiting for others; 0: defaults
  PmTransport *transport;     // NULL: all ranks are here. It must outlive the session
  bool poison;                // fill arenas with 0xff first, for pm_session_memory
  // As in PmCommOptions: warnings, and the first failure of any rank at the moment when it happens. A rank that hangs
  // for ever keeps pm_session_run from returning: a process that must end nevertheless starts a watchdog here
  // (runtime/watchdog.h).
  void (*report)(void *context, PmCode failed, const char *text);
  void *context;
} PmSessionOptions;

typedef struct PmSessionMemory {
  int64_t arena_bytes;    // of each rank, as predicted
  int64_t touched_bytes;  // one more than the highest byte that any rank wrote; needs `poison`
  // Outside of the arenas, of the process: what it held more after `create` than before it. Compiler and compiled code,
  // the BLAS library, threads. Measured; 0 where the system doesn't tell.
  int64_t outside_bytes;
} PmSessionMemory;

typedef struct PmStepCounts {  // of one rank, since the session began; of `null` too, where nothing ran
  int64_t steps[PM_STEP_KIND_COUNT];
  int64_t colls[PM_COLL_COUNT];
  int64_t coll_bytes[PM_COLL_COUNT];  // as pm_coll_bytes counts them
  double flops, bytes;                // predicted, added up
} PmStepCounts;

// USAGE when a transport has not as many ranks as the program.
PM_MUST_CHECK PmStatus *pm_session_create(const PmProgram *p, const PmSessionOptions *options, PmSession **out);
void pm_session_destroy(PmSession *s);  // NULL is nothing

// Gives every variable its initial value, which depends on (seed, path, global element) only, and runs the set-up
// entry. Inputs without one are zero.
PM_MUST_CHECK PmStatus *pm_session_init(PmSession *s);
// Variables by number in program.vars; -1 when there is none of this path.
int32_t pm_session_find_var(const PmSession *s, const char *path);
int64_t pm_session_var_bytes(const PmSession *s, int32_t var);  // of the whole variable
// `global`: the whole variable, row-major. USAGE when `bytes` is not its size.
PM_MUST_CHECK PmStatus *pm_session_set_var(PmSession *s, int32_t var, const void *global, int64_t bytes);
// CORRUPTION, naming the variable, when ranks that hold the same slice differ in a bit.
PM_MUST_CHECK PmStatus *pm_session_get_var(const PmSession *s, int32_t var, void *out_global);
// Sets the step counter (variables of role `step`), and fills the inputs that `data` feed; data may be NULL.
PM_MUST_CHECK PmStatus *pm_session_load(PmSession *s, const PmData *data, int64_t step);
// Runs an entry on all ranks. The status of the rank that failed first, on failure.
PM_MUST_CHECK PmStatus *pm_session_run(PmSession *s, int32_t entry);
// Output of an entry that has just run: the whole value; checks replicas as get_var. USAGE when there is none such.
const PmOutput *pm_session_find_output(const PmSession *s, int32_t entry, const char *name);
PM_MUST_CHECK PmStatus *pm_session_output(const PmSession *s, int32_t entry, const char *name, void *out_global);

// Tells ranks in other processes that this one cannot go on. Once is enough; not needed after a run that failed.
void pm_session_abandon(PmSession *s, const char *why);

void pm_session_memory(const PmSession *s, PmSessionMemory *out);
void pm_session_counts(const PmSession *s, PmStepCounts *out);

#endif

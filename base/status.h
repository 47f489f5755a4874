// Status: "this call failed" (file, device, communicator, damaged container). NULL means OK.
//
// Three channels are never mixed: diagnostics (the user's text is wrong, base/diag.h), status (a call failed),
// asserts (our own bug). A status is refcount-free: who receives it reports or drops it with pm_status_drop.
#ifndef PM_BASE_STATUS_H
#define PM_BASE_STATUS_H

#include "base/buf.h"

// Values are the process exit codes of DESIGN "The command".
typedef enum PmCode {
  PM_OK = 0,
  PM_ERR_INPUT = 1,  // the input is wrong
  PM_ERR_USAGE = 2,
  PM_ERR_ENVIRONMENT = 3,  // a file, library or device is missing
  PM_ERR_LIMIT = 4,
  PM_ERR_VERIFY = 5,  // verification failed
  PM_ERR_INTERNAL = 70,
  PM_ERR_STOPPED = 75,   // stopped on request after a checkpoint
  PM_ERR_DEADLINE = 80,  // communication deadline
  PM_ERR_NONFINITE = 81,
  PM_ERR_CORRUPTION = 82,
  PM_ERR_PEER = 83,  // a peer died
} PmCode;

typedef struct PmStatus PmStatus;

#define PM_MUST_CHECK __attribute__((warn_unused_result))

PM_MUST_CHECK PmStatus *pm_status_new(PmCode code, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// Adds one frame "file:line: text" and returns `st`.
PM_MUST_CHECK PmStatus *pm_status_wrap(PmStatus *st, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
PmCode pm_status_code(const PmStatus *st);  // PM_OK for NULL
const char *pm_status_message(const PmStatus *st);
void pm_status_print(const PmStatus *st, FILE *to);  // "pmodel: error: message", then the chain of frames
void pm_status_drop(PmStatus *st);

// The macro family of this channel.
#define PM_STATUS(code, ...) pm_status_new((code), __FILE__, __LINE__, __VA_ARGS__)
#define PM_TRY(expr)                           \
  do {                                         \
    PmStatus *pm_try_status_ = (expr);         \
    if (pm_try_status_) return pm_try_status_; \
  } while (0)
// Jumps to `label` with `st` set when the call failed: for functions that must release something.
#define PM_TRY_CLEAN(st, expr, label) \
  do {                                \
    (st) = (expr);                    \
    if (st) goto label;               \
  } while (0)

#endif

// Devices: where one rank's steps run. An object is one rank's arena and whatever computes on it; a step touches
// nothing outside of the arena. Every implementation passes tests/runtime/test_device.c.
//
//   cpu     compiled kernels, dot through CBLAS
//   interp  the kernel interpreter and dot by plain loops: the slow definition that cpu is compared with
//   null    runs nothing and has no arena: what a program costs without running it
#ifndef PM_RUNTIME_DEVICE_H
#define PM_RUNTIME_DEVICE_H

#include "runtime/pool.h"
#include "runtime/program.h"

typedef struct PmDevice PmDevice;

typedef struct PmDeviceOptions {
  int32_t threads;        // of this rank, >= 1
  int64_t ranks_here;     // of the program in this process
  bool poison;            // fill the arena with 0xff (NaN; index -1) before anything else
  const PmKernelFn *fns;  // compiled kernels, by number; NULL when the device needs none
} PmDeviceOptions;

typedef struct PmDeviceVtbl {
  const char *name;
  bool compiles;  // needs compiled kernels
  bool runs;      // false: has no memory, does nothing
  PmStatus *(*create)(const PmProgram *p, int64_t rank, const PmDeviceOptions *options, PmDevice **out);
  void (*destroy)(PmDevice *d);
  // One function a kind of step that computes; collectives belong to the communicator.
  PmStatus *(*kernel)(PmDevice *d, const PmStep *s);
  PmStatus *(*dot)(PmDevice *d, const PmStep *s);
  PmStatus *(*slots)(PmDevice *d, const PmStep *s);
  // One more than the highest byte that is no longer poison. Bytes behind the arena's end that share its last page
  // count, so that a program that leaves its arena is seen.
  int64_t (*touched)(const PmDevice *d);
} PmDeviceVtbl;

struct PmDevice {
  const PmDeviceVtbl *vtbl;
  char *arena;  // NULL when the device does not run
};

// By name; USAGE when there is none such.
PM_MUST_CHECK PmStatus *pm_device_find(const char *name, const PmDeviceVtbl **out);

#endif

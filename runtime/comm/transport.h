// How bytes get from one process of a run to the others: what a communicator between processes is built on
// (runtime/comm/remote.c). An implementation may be compiled apart and opened at run time, so this header is plain C
// without any function or type of ours, and it has a version.
//
// A transport belongs to one thread. Sends and receives are named by slots; the memory they are given stays untouched
// until `test` says that they are done. Between two ranks messages of one tag arrive in the order in which they were
// sent. Functions return 0, or a number that `describe` turns into text.
#ifndef PM_RUNTIME_COMM_TRANSPORT_H
#define PM_RUNTIME_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PM_TRANSPORT_VERSION 2
#define PM_TRANSPORT_SLOTS 7        // slots for each rank of the run
#define PM_TRANSPORT_MAX_TAG 32767  // tags are 0 .. this

enum { PM_SLOT_DONE = 1, PM_SLOT_FAILED = 2 };

typedef struct PmTransport PmTransport;

typedef struct PmTransportVtbl {
  int (*send)(PmTransport *t, int64_t slot, int64_t to, int tag, const void *bytes, int64_t n);
  int (*receive)(PmTransport *t, int64_t slot, int64_t from, int tag, void *bytes, int64_t n);
  // Which of the slots [first, first + n) have finished since they were last asked for: out_done[i] becomes DONE for
  // those, FAILED for those that never will, for one of which it returns the error, and is left alone for others. Sets
  // *out_any. A message longer than its receive is an error.
  int (*test)(PmTransport *t, int64_t first, int64_t n, uint8_t *out_done, bool *out_any);
  // Forgets what is unfinished in the slots. Sends (tag -1) may arrive or not. Receives have all one tag: until a
  // receive names it again nobody wants its messages, from any rank.
  void (*drop)(PmTransport *t, int64_t first, int64_t n, int tag);
  // Takes a message of this tag from any rank, when there is one: *out_n is its length, -1 for none.
  int (*take)(PmTransport *t, int tag, void *bytes, int64_t room, int64_t *out_n);
  void (*describe)(PmTransport *t, int error, char *out_text, size_t room);
  // Ends every process of the run, this one with `code`.
  void (*end)(PmTransport *t, int code);
  // All ranks close together; the transport is gone afterwards.
  void (*close)(PmTransport *t);
} PmTransportVtbl;

struct PmTransport {
  const PmTransportVtbl *vtbl;
  const char *name;     // "mpi", "tcp"
  const char *library;  // what it is built on, with its version
  int64_t rank, size;   // of the run
  int64_t here;         // ranks of the run on this machine
  int64_t max_bytes;    // of one message
  int32_t worlds;       // communicators so far, counted by these
};

// What a plugin exports as `pm_transport_open`. NULL, with the reason in `why`, when it cannot open or is of another
// version.
typedef PmTransport *PmTransportOpen(int version, char *why, size_t room);
#define PM_TRANSPORT_OPEN "pm_transport_open"

#endif

// The transport over MPI. A library of its own, opened at run time: the one file that knows <mpi.h>, and nothing of
// ours but the transport's header.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/transport.h"

#define MAX_BYTES (1 << 30)  // MPI counts in int

typedef struct MpiTransport {
  PmTransport base;
  MPI_Comm comm;  // our own copy of the world, so that no other user of MPI in this process meets our messages
  int64_t n_slots;
  MPI_Request *slots;
  int *indices;
  MPI_Status *statuses;
  char library[128];
} MpiTransport;

static int send_to(PmTransport *t, int64_t slot, int64_t to, int tag, const void *bytes, int64_t n) {
  MpiTransport *m = (MpiTransport *)t;
  return MPI_Isend(bytes, (int)n, MPI_BYTE, (int)to, tag, m->comm, &m->slots[slot]);
}

static int receive(PmTransport *t, int64_t slot, int64_t from, int tag, void *bytes, int64_t n) {
  MpiTransport *m = (MpiTransport *)t;
  return MPI_Irecv(bytes, (int)n, MPI_BYTE, (int)from, tag, m->comm, &m->slots[slot]);
}

static int test(PmTransport *t, int64_t first, int64_t n, uint8_t *out_done, bool *out_any) {
  MpiTransport *m = (MpiTransport *)t;
  int count = 0;
  *out_any = false;
  int err = MPI_Testsome((int)n, m->slots + first, &count, m->indices, m->statuses);
  if ((err != MPI_SUCCESS && err != MPI_ERR_IN_STATUS) || count == MPI_UNDEFINED) return err;
  int bad = MPI_SUCCESS;
  for (int i = 0; i < count; i++) {
    // Only a call that fails fills the errors of its statuses.
    int one = err == MPI_SUCCESS ? MPI_SUCCESS : m->statuses[i].MPI_ERROR;
    if (one == MPI_ERR_PENDING) continue;
    out_done[m->indices[i]] = one == MPI_SUCCESS ? PM_SLOT_DONE : PM_SLOT_FAILED;
    *out_any = true;
    if (one != MPI_SUCCESS) bad = one;
  }
  return bad;
}

static void drop(PmTransport *t, int64_t first, int64_t n, int tag) {
  MpiTransport *m = (MpiTransport *)t;
  for (int64_t i = first; i < first + n; i++) {
    if (m->slots[i] == MPI_REQUEST_NULL) continue;
    if (tag >= 0) {
      MPI_Cancel(&m->slots[i]);
      MPI_Wait(&m->slots[i], MPI_STATUS_IGNORE);
    } else {
      MPI_Request_free(&m->slots[i]);
    }
  }
}

static int take(PmTransport *t, int tag, void *bytes, int64_t room, int64_t *out_n) {
  MpiTransport *m = (MpiTransport *)t;
  MPI_Status status;
  int found = 0, n = 0;
  *out_n = -1;
  int err = MPI_Iprobe(MPI_ANY_SOURCE, tag, m->comm, &found, &status);
  if (err != MPI_SUCCESS || !found) return err;
  err = MPI_Recv(bytes, (int)room, MPI_BYTE, status.MPI_SOURCE, tag, m->comm, &status);
  if (err == MPI_SUCCESS) err = MPI_Get_count(&status, MPI_BYTE, &n);
  if (err == MPI_SUCCESS) *out_n = n;
  return err;
}

static void describe(PmTransport *t, int error, char *out_text, size_t room) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int len = 0;
  (void)t;
  if (MPI_Error_string(error, text, &len) != MPI_SUCCESS) len = snprintf(text, sizeof text, "MPI error %d", error);
  snprintf(out_text, room, "%.*s", len, text);
}

static void destroy(MpiTransport *m) {
  free(m->slots);
  free(m->indices);
  free(m->statuses);
  free(m);
}

static void end(PmTransport *t, int code) {
  (void)t;
  MPI_Abort(MPI_COMM_WORLD, code);
  exit(code);
}

static void close_all(PmTransport *t) {
  MpiTransport *m = (MpiTransport *)t;
  MPI_Comm_free(&m->comm);
  MPI_Finalize();
  destroy(m);
}

static const PmTransportVtbl vtbl = {send_to, receive, test, drop, take, describe, end, close_all};

static int ranks_here(MPI_Comm comm, int *out) {
  MPI_Comm machine;
  int err = MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  if (err == MPI_SUCCESS) err = MPI_Comm_size(machine, out);
  return err == MPI_SUCCESS ? MPI_Comm_free(&machine) : err;
}

static int open_world(MpiTransport *m) {
  int provided, rank = 0, size = 0, here = 0, len = 0;
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int err = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
  if (err != MPI_SUCCESS) return err;
  if ((err = MPI_Comm_dup(MPI_COMM_WORLD, &m->comm)) != MPI_SUCCESS) return err;
  // Errors come back as numbers; by default they end the process.
  MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(m->comm, &rank);
  MPI_Comm_size(m->comm, &size);
  if ((err = ranks_here(m->comm, &here)) != MPI_SUCCESS) return err;
  MPI_Get_library_version(text, &len);
  snprintf(m->library, sizeof m->library, "%.*s", (int)strcspn(text, ",\n"), text);
  m->n_slots = (int64_t)size * PM_TRANSPORT_SLOTS;
  m->base = (PmTransport){&vtbl, "mpi", m->library, rank, size, here, MAX_BYTES, 0};
  return MPI_SUCCESS;
}

PmTransport *pm_transport_open(int version, char *why, size_t room);

PmTransport *pm_transport_open(int version, char *why, size_t room) {
  if (version != PM_TRANSPORT_VERSION) {
    snprintf(why, room, "the plugin is of version %d, this pmodel needs version %d: build both from one source",
             PM_TRANSPORT_VERSION, version);
    return NULL;
  }
  MpiTransport *m = calloc(1, sizeof *m);
  int err = m ? open_world(m) : MPI_ERR_NO_MEM;
  if (err == MPI_SUCCESS) {
    m->slots = malloc((size_t)m->n_slots * sizeof *m->slots);
    m->indices = malloc((size_t)m->n_slots * sizeof *m->indices);
    m->statuses = malloc((size_t)m->n_slots * sizeof *m->statuses);
    err = m->slots && m->indices && m->statuses ? MPI_SUCCESS : MPI_ERR_NO_MEM;
  }
  if (err != MPI_SUCCESS) {
    describe(NULL, err, why, room);
    if (m) destroy(m);
    return NULL;
  }
  for (int64_t i = 0; i < m->n_slots; i++) m->slots[i] = MPI_REQUEST_NULL;
  return &m->base;
}

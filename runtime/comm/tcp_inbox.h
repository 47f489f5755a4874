// The receiving side of one connection: a stream of frames, cut into messages and given to the receives that were
// posted for their tags. Knows no sockets: the caller asks where the next bytes go, puts them there, and says how many.
//
// A frame is a header and as many bytes as it says. A message that comes before its receive is kept when it is small; a
// large one waits in the stream, so what is kept is bounded.
#ifndef PM_RUNTIME_COMM_TCP_INBOX_H
#define PM_RUNTIME_COMM_TCP_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PM_TCP_MAX_BYTES (INT64_C(1) << 30)  // of a message
#define PM_TCP_SMALL_BYTES (64 << 10)        // of a message that is kept
#define PM_TCP_MAX_KEPT 256                  // messages

typedef struct PmTcpFrame {
  uint32_t magic;
  int32_t tag;
  int64_t n;
} PmTcpFrame;
_Static_assert(sizeof(PmTcpFrame) == 16, "a frame is the same on all ranks");

PmTcpFrame pm_tcp_frame(int tag, int64_t n);

typedef enum PmTcpState { PM_TCP_FREE, PM_TCP_OPEN, PM_TCP_DONE, PM_TCP_TOO_LONG, PM_TCP_LOST } PmTcpState;

typedef struct PmTcpReceive {
  char *bytes;
  int64_t n;
  int32_t tag;
  PmTcpState state;
  struct PmTcpReceive *next;  // the one posted after it
} PmTcpReceive;

typedef struct PmTcpMessage {  // kept
  struct PmTcpMessage *next;
  int32_t tag;
  int64_t n;
  char bytes[];
} PmTcpMessage;

typedef struct PmTcpInbox {
  const uint8_t *unwanted;  // a bit for each tag, shared by all connections
  PmTcpFrame frame;         // what is coming: its header, then its bytes
  int64_t got;              // of the header
  int64_t left;             // of the bytes; -1 until there is a place for them
  PmTcpReceive *into;       // these; else
  PmTcpMessage *keep;       // this; else they are thrown away
  PmTcpReceive *posted;
  PmTcpMessage *kept, **kept_end;
  int32_t n_kept;
  char waste[4096];
} PmTcpInbox;

void pm_tcp_inbox_init(PmTcpInbox *b, const uint8_t *unwanted);
void pm_tcp_inbox_deinit(PmTcpInbox *b);

// Where the next bytes go. *out_n is 0 while a message waits for its receive.
void pm_tcp_inbox_place(PmTcpInbox *b, char **out_at, int64_t *out_n);
// That so many have been put there. False when they are no frame: the stream is of no use any more.
bool pm_tcp_inbox_advance(PmTcpInbox *b, int64_t n);

// `r` and its memory stay untouched until r->state is no longer OPEN, or the receive is forgotten. Messages of a tag go
// to receives in the order of both. A message longer than its receive is TOO_LONG, and lost.
void pm_tcp_inbox_post(PmTcpInbox *b, PmTcpReceive *r);
void pm_tcp_inbox_forget(PmTcpInbox *b, PmTcpReceive *r);
// Throws away what is kept of the tag.
void pm_tcp_inbox_purge(PmTcpInbox *b, int tag);
// No more bytes will come: receives that wait become LOST.
void pm_tcp_inbox_close(PmTcpInbox *b);
// The first kept message of the tag, cut at `room` bytes: its length; -1 for none.
int64_t pm_tcp_inbox_take(PmTcpInbox *b, int tag, void *bytes, int64_t room);

static inline void pm_tcp_set_unwanted(uint8_t *unwanted, int tag, bool is) {
  uint8_t bit = (uint8_t)(1 << (tag & 7));
  unwanted[tag >> 3] = (uint8_t)(is ? unwanted[tag >> 3] | bit : unwanted[tag >> 3] & ~bit);
}

#endif

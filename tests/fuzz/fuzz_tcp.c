// What a connection brings, and receives that are posted and forgotten while it does. The input is a list of acts: one
// byte says which, the next ones are its numbers.
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/tcp_inbox.h"
#include "runtime/comm/transport.h"
#include "target.h"

enum { RECEIVES = 4, BYTES = 4096 };

typedef struct Fuzz {
  const uint8_t *data;
  size_t left;
  PmTcpInbox inbox;
  PmTcpReceive receives[RECEIVES];
  uint8_t unwanted[(PM_TRANSPORT_MAX_TAG + 8) / 8];
} Fuzz;

static uint8_t next(Fuzz *f) {
  if (f->left == 0) return 0;
  f->left--;
  return *f->data++;
}

// False at the end of the stream: what came is no frame.
static bool put(Fuzz *f, uint8_t byte) {
  char *at;
  int64_t room;
  pm_tcp_inbox_place(&f->inbox, &at, &room);
  if (room == 0) return true;
  memset(at, byte, (size_t)room);
  return pm_tcp_inbox_advance(&f->inbox, 1);
}

static bool put_header(Fuzz *f) {
  int tag = next(f) & 7;
  int64_t n = next(f);
  PmTcpFrame frame = pm_tcp_frame(tag, n << (next(f) & 15));
  uint8_t bytes[sizeof frame];
  memcpy(bytes, &frame, sizeof frame);
  bool open = true;
  for (size_t i = 0; i < sizeof frame && open; i++) open = put(f, bytes[i]);
  return open;
}

static bool put_bytes(Fuzz *f) {
  bool open = true;
  for (uint8_t n = next(f); n > 0 && open; n--) open = put(f, next(f));
  return open;
}

static void post(Fuzz *f) {
  PmTcpReceive *r = &f->receives[next(f) % RECEIVES];
  if (r->state == PM_TCP_OPEN) pm_tcp_inbox_forget(&f->inbox, r);
  r->n = (int64_t)next(f) << 4;
  r->tag = next(f) & 7;
  pm_tcp_inbox_post(&f->inbox, r);
}

static bool act(Fuzz *f) {
  char bytes[100];
  PmTcpReceive *r;
  uint8_t tag;
  switch (next(f) % 6) {
    case 0:
      return put_header(f);
    case 1:
      return put_bytes(f);
    case 2:
      post(f);
      return true;
    case 3:
      r = &f->receives[next(f) % RECEIVES];
      if (r->state == PM_TCP_OPEN) pm_tcp_inbox_forget(&f->inbox, r);
      return true;
    case 4:
      if (pm_tcp_inbox_take(&f->inbox, next(f) & 7, bytes, sizeof bytes) > (int64_t)sizeof bytes) abort();
      return true;
    default:
      tag = next(f);
      pm_tcp_set_unwanted(f->unwanted, tag & 7, tag >> 7);
      if (tag >> 7) pm_tcp_inbox_purge(&f->inbox, tag & 7);
      return true;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Fuzz *f = calloc(1, sizeof *f);
  if (!f) abort();
  f->data = data;
  f->left = size;
  pm_tcp_inbox_init(&f->inbox, f->unwanted);
  for (int32_t i = 0; i < RECEIVES; i++) {
    f->receives[i].bytes = malloc(BYTES);
    if (!f->receives[i].bytes) abort();
  }
  bool open = true;
  while (open && f->left > 0) open = act(f);
  pm_tcp_inbox_close(&f->inbox);
  for (int32_t i = 0; i < RECEIVES; i++) {
    if (f->receives[i].state == PM_TCP_OPEN) abort();
    free(f->receives[i].bytes);
  }
  pm_tcp_inbox_deinit(&f->inbox);
  free(f);
  return 0;
}

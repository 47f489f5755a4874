#include "runtime/comm/tcp_inbox.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/comm/transport.h"

#define MAGIC 0x6d617266u

PmTcpFrame pm_tcp_frame(int tag, int64_t n) { return (PmTcpFrame){MAGIC, tag, n}; }

void pm_tcp_inbox_init(PmTcpInbox *b, const uint8_t *unwanted) {
  memset(b, 0, sizeof *b);
  b->unwanted = unwanted;
  b->left = -1;
  b->kept_end = &b->kept;
}

void pm_tcp_inbox_deinit(PmTcpInbox *b) {
  free(b->keep);
  for (PmTcpMessage *m = b->kept, *next; m; m = next) {
    next = m->next;
    free(m);
  }
  pm_tcp_inbox_init(b, b->unwanted);
}

static bool is_unwanted(const PmTcpInbox *b, int32_t tag) { return b->unwanted[tag >> 3] >> (tag & 7) & 1; }

static PmTcpReceive *unlink_posted(PmTcpInbox *b, int32_t tag) {
  for (PmTcpReceive **at = &b->posted; *at; at = &(*at)->next) {
    if ((*at)->tag != tag) continue;
    PmTcpReceive *r = *at;
    *at = r->next;
    return r;
  }
  return NULL;
}

static void keep(PmTcpInbox *b, PmTcpMessage *m) {
  *b->kept_end = m;
  b->kept_end = &m->next;
  b->n_kept++;
}

static PmTcpMessage *unlink_kept(PmTcpInbox *b, int32_t tag) {
  for (PmTcpMessage **at = &b->kept; *at; at = &(*at)->next) {
    if ((*at)->tag != tag) continue;
    PmTcpMessage *m = *at;
    *at = m->next;
    if (!*at) b->kept_end = at;
    b->n_kept--;
    return m;
  }
  return NULL;
}

static void fill(PmTcpReceive *r, const PmTcpMessage *m) {
  r->state = m->n > r->n ? PM_TCP_TOO_LONG : PM_TCP_DONE;
  if (r->state == PM_TCP_DONE && m->n > 0) memcpy(r->bytes, m->bytes, (size_t)m->n);
}

// The frame has come as far as its place goes.
static void finish(PmTcpInbox *b) {
  if (b->into) b->into->state = PM_TCP_DONE;
  if (b->keep) {
    // It may have been asked for since it began to come.
    PmTcpReceive *r = unlink_posted(b, b->keep->tag);
    if (r) {
      fill(r, b->keep);
      free(b->keep);
    } else {
      keep(b, b->keep);
    }
  }
  b->into = NULL;
  b->keep = NULL;
  b->got = 0;
  b->left = -1;
}

// A place for the bytes of a frame whose header is there. Stays without one when the message has to wait.
static void find_place(PmTcpInbox *b) {
  int64_t n = b->frame.n;
  PmTcpReceive *r = unlink_posted(b, b->frame.tag);
  if (r && n > r->n) {
    r->state = PM_TCP_TOO_LONG;
  } else if (r) {
    b->into = r;
  } else if (!is_unwanted(b, b->frame.tag)) {
    if (n > PM_TCP_SMALL_BYTES || b->n_kept >= PM_TCP_MAX_KEPT) return;
    PmTcpMessage *m = malloc(sizeof *m + (size_t)n);
    if (!m) return;
    *m = (PmTcpMessage){.tag = b->frame.tag, .n = n};
    b->keep = m;
  }
  b->left = n;
  if (n == 0) finish(b);
}

void pm_tcp_inbox_place(PmTcpInbox *b, char **out_at, int64_t *out_n) {
  int64_t size = sizeof b->frame;
  if (b->got == size && b->left < 0) find_place(b);
  if (b->got < size) {
    *out_at = (char *)&b->frame + b->got;
    *out_n = size - b->got;
    return;
  }
  int64_t done = b->frame.n - b->left;
  *out_at = b->into ? b->into->bytes + done : b->keep ? b->keep->bytes + done : b->waste;
  *out_n = b->left < 0 ? 0 : b->left;
  if (*out_at == b->waste && *out_n > (int64_t)sizeof b->waste) *out_n = sizeof b->waste;
}

bool pm_tcp_inbox_advance(PmTcpInbox *b, int64_t n) {
  int64_t size = sizeof b->frame;
  if (b->got == size) {
    b->left -= n;
    if (b->left == 0) finish(b);
    return true;
  }
  b->got += n;
  if (b->got < size) return true;
  const PmTcpFrame *f = &b->frame;
  return f->magic == MAGIC && f->tag >= 0 && f->tag <= PM_TRANSPORT_MAX_TAG && f->n >= 0 && f->n <= PM_TCP_MAX_BYTES;
}

void pm_tcp_inbox_post(PmTcpInbox *b, PmTcpReceive *r) {
  r->state = PM_TCP_OPEN;
  r->next = NULL;
  PmTcpMessage *m = unlink_kept(b, r->tag);
  if (m) {
    fill(r, m);
    free(m);
    return;
  }
  PmTcpReceive **end = &b->posted;
  while (*end) end = &(*end)->next;
  *end = r;
}

void pm_tcp_inbox_forget(PmTcpInbox *b, PmTcpReceive *r) {
  if (b->into == r) b->into = NULL;
  for (PmTcpReceive **at = &b->posted; *at; at = &(*at)->next) {
    if (*at != r) continue;
    *at = r->next;
    break;
  }
  r->state = PM_TCP_FREE;
}

void pm_tcp_inbox_purge(PmTcpInbox *b, int tag) {
  for (PmTcpMessage *m; (m = unlink_kept(b, tag));) free(m);
}

void pm_tcp_inbox_close(PmTcpInbox *b) {
  if (b->into) b->into->state = PM_TCP_LOST;
  for (PmTcpReceive *r = b->posted; r; r = r->next) r->state = PM_TCP_LOST;
  b->into = NULL;
  b->posted = NULL;
}

int64_t pm_tcp_inbox_take(PmTcpInbox *b, int tag, void *bytes, int64_t room) {
  PmTcpMessage *m = unlink_kept(b, tag);
  if (!m) return -1;
  int64_t n = m->n < room ? m->n : room;
  memcpy(bytes, m->bytes, (size_t)n);
  free(m);
  return n;
}

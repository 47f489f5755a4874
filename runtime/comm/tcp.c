// A connection between every two ranks, none of them ever blocking: bytes move while a rank asks whether they have.
#include "runtime/comm/tcp.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arena.h"
#include "runtime/comm/tcp_inbox.h"
#include "runtime/comm/tcp_meet.h"
#include "runtime/futex.h"

#define AHEAD_BYTES 4096  // read at once: small messages with their headers
#define CLOSE_S 2.0       // for what is under way to leave
#define END_S 0.5
#define POLL_MS 10

typedef struct Send {
  PmTcpFrame frame;
  const char *bytes;
  int64_t sent;  // of frame and bytes
  PmTcpState state;
  char *owned;  // the bytes, when their sender has forgotten them
  struct Send *next;
} Send;

typedef struct Slot {
  PmTcpReceive receive;
  Send send;
  int32_t peer;
} Slot;

typedef struct Peer {
  int fd;  // -1: lost, or this rank itself
  PmTcpInbox inbox;
  Send *out, **out_end;
  int64_t begin, end;  // of `ahead`
  char ahead[AHEAD_BYTES];
  char why[96];  // it is lost
} Peer;

typedef struct Tcp {
  PmTransport base;
  Peer *peers;
  Slot *slots;
  struct pollfd *polls;
  uint8_t unwanted[(PM_TRANSPORT_MAX_TAG + 8) / 8];
} Tcp;

static void lose(Peer *p, const char *why) {
  if (p->fd < 0) return;
  close(p->fd);
  p->fd = -1;
  snprintf(p->why, sizeof p->why, "%s", why);
  pm_tcp_inbox_close(&p->inbox);
  for (Send *s = p->out, *next; s; s = next) {
    next = s->next;
    if (s->owned) {
      free(s->owned);
      free(s);
    } else {
      s->state = PM_TCP_LOST;
    }
  }
  p->out = NULL;
  p->out_end = &p->out;
}

// ---- moving bytes --------------------------------------------------------------------------------------------------
static bool passes(int err) { return err == EAGAIN || err == EWOULDBLOCK || err == EINTR; }

// Gives what has been read ahead to the inbox, as far as it has a place.
static bool hand_over(Peer *p) {
  char *at;
  int64_t n;
  while (p->begin < p->end) {
    pm_tcp_inbox_place(&p->inbox, &at, &n);
    if (n == 0) return true;
    if (n > p->end - p->begin) n = p->end - p->begin;
    memcpy(at, p->ahead + p->begin, (size_t)n);
    p->begin += n;
    if (pm_tcp_inbox_advance(&p->inbox, n)) continue;
    lose(p, "sent what is no message");
    return false;
  }
  p->begin = p->end = 0;
  return true;
}

static void lose_by(Peer *p, int err) {
  char why[sizeof p->why];
  snprintf(why, sizeof why, "is lost (%s)", strerror(err));
  lose(p, why);
}

// Large messages are read to where they belong, the rest ahead.
static void read_peer(Peer *p) {
  for (bool more = true; p->fd >= 0 && hand_over(p) && more && p->end == 0;) {
    char *at;
    int64_t n;
    pm_tcp_inbox_place(&p->inbox, &at, &n);
    if (n == 0) return;
    bool direct = n >= AHEAD_BYTES;
    size_t room = direct ? (size_t)n : sizeof p->ahead;
    ssize_t got = recv(p->fd, direct ? at : p->ahead, room, MSG_DONTWAIT);
    if (got <= 0) {
      if (got == 0) lose(p, "closed its connection");
      if (got < 0 && !passes(errno)) lose_by(p, errno);
      return;
    }
    if (direct) {
      pm_tcp_inbox_advance(&p->inbox, got);
    } else {
      p->end = got;
    }
    more = (size_t)got == room;
  }
}

static void unlink_send(Peer *p, Send *s, Send *instead) {
  Send **at = &p->out;
  while (*at != s) at = &(*at)->next;
  *at = instead ? instead : s->next;
  if (instead) instead->next = s->next;
  if (p->out_end == &s->next) p->out_end = instead ? &instead->next : at;
}

static void write_peer(Peer *p) {
  while (p->fd >= 0 && p->out) {
    Send *s = p->out;
    int64_t head = sizeof s->frame, of_head = s->sent < head ? s->sent : head, of_bytes = s->sent - of_head;
    struct iovec parts[2] = {
        {(char *)&s->frame + of_head, (size_t)(head - of_head)},
        {(char *)(uintptr_t)s->bytes + of_bytes, (size_t)(s->frame.n - of_bytes)},
    };
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = s->frame.n > 0 ? 2 : 1};
    ssize_t n = sendmsg(p->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && passes(errno)) return;
    if (n < 0) {
      int err = errno;
      // What it said before it went counts.
      read_peer(p);
      lose_by(p, err);
      return;
    }
    s->sent += n;
    if (s->sent < head + s->frame.n) continue;
    unlink_send(p, s, NULL);
    s->state = PM_TCP_DONE;
    if (!s->owned) continue;
    free(s->owned);
    free(s);
  }
}

static void progress(Tcp *t, int timeout_ms) {
  for (int64_t r = 0; r < t->base.size; r++) {
    Peer *p = &t->peers[r];
    char *at;
    int64_t n = 0;
    t->polls[r] = (struct pollfd){.fd = p->fd};
    if (p->fd < 0 || !hand_over(p)) continue;
    if (p->end == 0) pm_tcp_inbox_place(&p->inbox, &at, &n);
    t->polls[r].events = (short)((n > 0 ? POLLIN : 0) | (p->out ? POLLOUT : 0));
    if (t->polls[r].events == 0) t->polls[r].fd = -1;
  }
  if (poll(t->polls, (nfds_t)t->base.size, timeout_ms) <= 0) return;
  for (int64_t r = 0; r < t->base.size; r++) {
    if (t->polls[r].revents == 0) continue;
    write_peer(&t->peers[r]);
    read_peer(&t->peers[r]);
  }
}

// ---- the table -----------------------------------------------------------------------------------------------------
static int lost(int64_t peer) { return (int)(2 * peer + 1); }
static int too_long(int64_t peer) { return (int)(2 * peer + 2); }

static int send_to(PmTransport *base, int64_t slot, int64_t to, int tag, const void *bytes, int64_t n) {
  Tcp *t = (Tcp *)base;
  Peer *p = &t->peers[to];
  Slot *s = &t->slots[slot];
  if (p->fd < 0) return lost(to);
  s->peer = (int32_t)to;
  s->send = (Send){.frame = pm_tcp_frame(tag, n), .bytes = bytes, .state = PM_TCP_OPEN};
  bool first = !p->out;
  *p->out_end = &s->send;
  p->out_end = &s->send.next;
  if (first) write_peer(p);
  return 0;
}

static int receive(PmTransport *base, int64_t slot, int64_t from, int tag, void *bytes, int64_t n) {
  Tcp *t = (Tcp *)base;
  Peer *p = &t->peers[from];
  Slot *s = &t->slots[slot];
  pm_tcp_set_unwanted(t->unwanted, tag, false);
  s->peer = (int32_t)from;
  s->receive = (PmTcpReceive){.bytes = bytes, .n = n, .tag = tag};
  pm_tcp_inbox_post(&p->inbox, &s->receive);
  if (p->fd >= 0 || s->receive.state != PM_TCP_OPEN) return 0;
  pm_tcp_inbox_forget(&p->inbox, &s->receive);
  return lost(from);
}

static int test(PmTransport *base, int64_t first, int64_t n, uint8_t *out_done, bool *out_any) {
  Tcp *t = (Tcp *)base;
  int err = 0;
  *out_any = false;
  progress(t, 0);
  for (int64_t i = 0; i < n; i++) {
    Slot *s = &t->slots[first + i];
    PmTcpState state = s->send.state != PM_TCP_FREE ? s->send.state : s->receive.state;
    if (state == PM_TCP_FREE || state == PM_TCP_OPEN) continue;
    s->send.state = s->receive.state = PM_TCP_FREE;
    out_done[i] = state == PM_TCP_DONE ? PM_SLOT_DONE : PM_SLOT_FAILED;
    *out_any = true;
    if (state == PM_TCP_LOST) err = lost(s->peer);
    if (state == PM_TCP_TOO_LONG && !err) err = too_long(s->peer);
  }
  return err;
}

// Of a frame that has begun to leave the rest follows, or the other side could read nothing behind it.
static void forget_send(Peer *p, Send *s) {
  Send *rest = NULL;
  if (s->sent > 0) {
    rest = malloc(sizeof *rest);
    char *bytes = malloc((size_t)s->frame.n + 1);
    if (!rest || !bytes) pm_memory_exhausted((size_t)s->frame.n, 0);
    memcpy(bytes, s->bytes, (size_t)s->frame.n);
    *rest = *s;
    rest->bytes = rest->owned = bytes;
  }
  unlink_send(p, s, rest);
}

static void drop(PmTransport *base, int64_t first, int64_t n, int tag) {
  Tcp *t = (Tcp *)base;
  for (int64_t i = first; i < first + n; i++) {
    Slot *s = &t->slots[i];
    Peer *p = &t->peers[s->peer];
    if (s->send.state == PM_TCP_OPEN) forget_send(p, &s->send);
    if (s->receive.state == PM_TCP_OPEN) pm_tcp_inbox_forget(&p->inbox, &s->receive);
    s->send.state = s->receive.state = PM_TCP_FREE;
  }
  if (tag < 0) return;
  pm_tcp_set_unwanted(t->unwanted, tag, true);
  for (int64_t r = 0; r < t->base.size; r++) pm_tcp_inbox_purge(&t->peers[r].inbox, tag);
}

static int take(PmTransport *base, int tag, void *bytes, int64_t room, int64_t *out_n) {
  Tcp *t = (Tcp *)base;
  progress(t, 0);
  *out_n = -1;
  for (int64_t r = 0; r < t->base.size && *out_n < 0; r++) {
    *out_n = pm_tcp_inbox_take(&t->peers[r].inbox, tag, bytes, room);
  }
  return 0;
}

static void describe(PmTransport *base, int error, char *out_text, size_t room) {
  const Tcp *t = (const Tcp *)base;
  int64_t peer = (error - 1) / 2;
  const char *why = error == lost(peer) ? t->peers[peer].why : "sent more than was asked for";
  snprintf(out_text, room, "rank %lld %s", (long long)peer, why);
}

// What has been sent leaves, and what comes is read until the others close: closing over unread bytes resets a
// connection, and what is under way would be lost.
static void leave(Tcp *t, double seconds) {
  double until = pm_clock_seconds() + seconds;
  for (int64_t open = 1; open > 0 && pm_clock_seconds() < until;) {
    open = 0;
    for (int64_t r = 0; r < t->base.size; r++) {
      Peer *p = &t->peers[r];
      if (p->fd >= 0 && !p->out) shutdown(p->fd, SHUT_WR);
      open += p->fd >= 0;
    }
    if (open > 0) progress(t, POLL_MS);
  }
  for (int64_t r = 0; r < t->base.size; r++) lose(&t->peers[r], "closed");
}

static void want_nothing(Tcp *t) {
  memset(t->unwanted, 0xff, sizeof t->unwanted);
  for (int64_t i = 0; i < t->base.size * PM_TRANSPORT_SLOTS; i++) {
    Slot *s = &t->slots[i];
    if (s->receive.state == PM_TCP_OPEN) pm_tcp_inbox_forget(&t->peers[s->peer].inbox, &s->receive);
  }
}

static void destroy(Tcp *t) {
  for (int64_t r = 0; r < t->base.size; r++) pm_tcp_inbox_deinit(&t->peers[r].inbox);
  free(t->peers);
  free(t->slots);
  free(t->polls);
  free(t);
}

static void end(PmTransport *base, int code) {
  want_nothing((Tcp *)base);
  leave((Tcp *)base, END_S);
  exit(code);
}

static void close_all(PmTransport *base) {
  Tcp *t = (Tcp *)base;
  want_nothing(t);
  leave(t, CLOSE_S);
  destroy(t);
}

static const PmTransportVtbl vtbl = {send_to, receive, test, drop, take, describe, end, close_all};

PmStatus *pm_tcp_open(const PmTcpOptions *o, PmTransport **out) {
  *out = NULL;
  if (o->rank < 0 || o->rank >= o->size || o->size > PM_TCP_MAX_RANKS) {
    return PM_STATUS(PM_ERR_USAGE, "rank %lld of %lld: ranks count from 0, and over TCP there are at most %d",
                     (long long)o->rank, (long long)o->size, PM_TCP_MAX_RANKS);
  }
  size_t n = (size_t)o->size;
  int *fds = malloc(n * sizeof *fds);
  if (!fds) pm_memory_exhausted(n * sizeof *fds, 0);
  int64_t here = 1;
  PmStatus *st = pm_tcp_meet(o, fds, &here);
  if (!st) {
    Tcp *t = calloc(1, sizeof *t);
    Peer *peers = calloc(n, sizeof *peers);
    Slot *slots = calloc(n * PM_TRANSPORT_SLOTS, sizeof *slots);
    struct pollfd *polls = calloc(n, sizeof *polls);
    if (!t || !peers || !slots || !polls) pm_memory_exhausted(n * (sizeof *peers + sizeof *slots), 0);
    *t = (Tcp){.base = {&vtbl, "tcp", "TCP", o->rank, o->size, here, PM_TCP_MAX_BYTES, 0},
               .peers = peers,
               .slots = slots,
               .polls = polls};
    for (size_t r = 0; r < n; r++) {
      peers[r].fd = fds[r];
      peers[r].out_end = &peers[r].out;
      pm_tcp_inbox_init(&peers[r].inbox, t->unwanted);
    }
    *out = &t->base;
  }
  free(fds);
  return st;
}

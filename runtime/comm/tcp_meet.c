#include "runtime/comm/tcp_meet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/hash.h"
#include "runtime/futex.h"

#define VERSION (1u << 16 | PM_TRANSPORT_VERSION)
#define GREETING_S 5.0  // for a stranger to say who it is
#define ANSWER_S 30.0   // for rank 0 to say that it is rank 0
#define RETRY_NS 50000000
#define MAX_POLL_S 1000.0
#define MAX_STRANGERS 64
#define OTHER_FILES 128  // that a process has open
#define TEXT_BYTES 256

typedef struct Answer {
  uint64_t magic;
  int32_t code;  // 0: welcome; else an exit code, and `n` bytes of text say why
  int32_t n;     // bytes that follow
} Answer;

typedef struct Place {   // where a rank is
  unsigned char ip[16];  // IPv4 addresses are mapped
  uint16_t port;
  uint16_t beside_first;  // on the machine of rank 0: who reached that one reaches this one at its address
} Place;
_Static_assert(sizeof(Place) == 20 && sizeof(Answer) == 16, "the same on all ranks");

typedef struct Stranger {  // has connected and not yet said who it is
  int fd;
  double until;
  size_t got;
  PmTcpGreeting greeting;
} Stranger;

typedef struct Meet {
  const PmTcpOptions *o;
  double until;
  int listener;
  uint64_t key;
  int *fds;
  Place *places;
  Place first;  // rank 0, as this rank sees it
  int32_t n_strangers;
  Stranger strangers[MAX_STRANGERS];
  char refused[TEXT_BYTES];  // the last that had a good greeting
} Meet;

PmTcpGreeting pm_tcp_greeting(int64_t rank, int64_t size, uint32_t port, uint64_t key) {
  PmTcpGreeting g = {PM_TCP_GREETING_MAGIC, VERSION, port, rank, size, key, 0};
  g.check = pm_hash64(&g, offsetof(PmTcpGreeting, check), 0);
  return g;
}

// ---- sockets -------------------------------------------------------------------------------------------------------
static void close_fd(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

static bool set_up(int fd) {
  int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

// For poll: it may wake earlier.
static int milliseconds(double seconds) {
  return seconds <= 0 ? 0 : seconds > MAX_POLL_S ? (int)(MAX_POLL_S * 1e3) : (int)(seconds * 1e3) + 1;
}

// Whether the socket is ready before `until`.
static bool wait_for(int fd, short events, double until) {
  for (;;) {
    double left = until - pm_clock_seconds();
    struct pollfd p = {.fd = fd, .events = events};
    int n = poll(&p, 1, milliseconds(left));
    if (n > 0) return true;
    if ((n < 0 && errno != EINTR) || left <= 0) return false;
  }
}

// 0, or an errno; ECONNRESET at the end of the stream.
static int read_all(int fd, void *bytes, size_t n, double until) {
  for (size_t got = 0; got < n;) {
    ssize_t k = recv(fd, (char *)bytes + got, n - got, MSG_DONTWAIT);
    if (k == 0) return ECONNRESET;
    if (k > 0) {
      got += (size_t)k;
    } else if (errno != EAGAIN && errno != EINTR) {
      return errno;
    } else if (!wait_for(fd, POLLIN, until)) {
      return ETIMEDOUT;
    }
  }
  return 0;
}

static int write_all(int fd, const void *bytes, size_t n, double until) {
  for (size_t sent = 0; sent < n;) {
    ssize_t k = send(fd, (const char *)bytes + sent, n - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (k >= 0) {
      sent += (size_t)k;
    } else if (errno != EAGAIN && errno != EINTR) {
      return errno;
    } else if (!wait_for(fd, POLLOUT, until)) {
      return ETIMEDOUT;
    }
  }
  return 0;
}

static void place_of(const struct sockaddr_storage *a, Place *out) {
  static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
  *out = (Place){.port = 0};
  if (a->ss_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    memcpy(out->ip, &v6->sin6_addr, sizeof out->ip);
    out->port = ntohs(v6->sin6_port);
  } else {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    memcpy(out->ip, mapped, sizeof mapped);
    memcpy(out->ip + sizeof mapped, &v4->sin_addr, 4);
    out->port = ntohs(v4->sin_port);
  }
}

static bool is_loopback(const Place *p) {
  const struct in6_addr *ip = (const struct in6_addr *)(const void *)p->ip;
  return IN6_IS_ADDR_LOOPBACK(ip) || (IN6_IS_ADDR_V4MAPPED(ip) && p->ip[12] == 127);
}

static socklen_t address_of(const Place *p, struct sockaddr_storage *out) {
  memset(out, 0, sizeof *out);
  if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)p->ip)) {
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    v4->sin_family = AF_INET;
    v4->sin_port = htons(p->port);
    memcpy(&v4->sin_addr, p->ip + 12, 4);
    return sizeof *v4;
  }
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(p->port);
  memcpy(&v6->sin6_addr, p->ip, sizeof p->ip);
  return sizeof *v6;
}

// Trying to reach a free port of this machine, a socket may be given that port, and reach itself.
static bool reaches_itself(int fd) {
  struct sockaddr_storage a, b;
  socklen_t a_len = sizeof a, b_len = sizeof b;
  Place ours, theirs;
  if (getsockname(fd, (struct sockaddr *)&a, &a_len) != 0 || getpeername(fd, (struct sockaddr *)&b, &b_len) != 0) {
    return false;
  }
  place_of(&a, &ours);
  place_of(&b, &theirs);
  return memcmp(&ours, &theirs, sizeof ours) == 0;
}

static int connect_to(const struct sockaddr *address, socklen_t len, double until, int *out) {
  int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), err = 0;
  socklen_t size = sizeof err;
  *out = -1;
  if (fd < 0) return errno;
  if (!set_up(fd)) err = errno;
  if (!err && connect(fd, address, len) != 0) {
    err = errno;
    if (err == EINPROGRESS) {
      err = ETIMEDOUT;
      if (wait_for(fd, POLLOUT, until) && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size) != 0) err = errno;
    }
  }
  if (!err && reaches_itself(fd)) err = ECONNREFUSED;
  if (err) {
    close(fd);
    return err;
  }
  *out = fd;
  return 0;
}

static int listen_at(const Place *p, int *out) {
  struct sockaddr_storage a;
  socklen_t len = address_of(p, &a);
  int fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, off = 0, err = 0;
  *out = -1;
  if (fd < 0) return errno;
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (a.ss_family == AF_INET6) (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (!set_up(fd) || bind(fd, (struct sockaddr *)&a, len) != 0 || listen(fd, SOMAXCONN) != 0) {
    err = errno;
    close(fd);
    return err;
  }
  *out = fd;
  return 0;
}

// Ranks of one machine that meet at a loopback address listen only there; else at every address, of either kind.
static int open_listener(Meet *m, uint16_t port) {
  struct sockaddr_storage any = {.ss_family = AF_INET};
  const char *host = strcmp(m->o->host, "localhost") == 0 ? "127.0.0.1" : m->o->host;
  Place p = {.port = 0};
  struct sockaddr_in *v4 = (struct sockaddr_in *)&any;
  if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
    place_of(&any, &p);
  } else if (inet_pton(AF_INET6, host, p.ip) != 1) {
    p = (Place){.port = 0};
  }
  bool here_only = is_loopback(&p);
  if (!here_only) p = (Place){.port = 0};
  p.port = port;
  int err = listen_at(&p, &m->listener);
  if (here_only || (err != EAFNOSUPPORT && err != EADDRNOTAVAIL)) return err;
  v4->sin_addr.s_addr = htonl(INADDR_ANY);
  place_of(&any, &p);
  p.port = port;
  return listen_at(&p, &m->listener);
}

static uint32_t local_port(int fd) {
  struct sockaddr_storage a;
  socklen_t len = sizeof a;
  Place p = {.port = 0};
  if (getsockname(fd, (struct sockaddr *)&a, &len) == 0) place_of(&a, &p);
  return p.port;
}

// ---- being found ---------------------------------------------------------------------------------------------------
static void answer(int fd, int32_t code, const void *bytes, size_t n, double until) {
  Answer a = {PM_TCP_GREETING_MAGIC, code, (int32_t)n};
  if (write_all(fd, &a, sizeof a, until) == 0 && n > 0) (void)write_all(fd, bytes, n, until);
}

// False when the system does not say where it is.
static bool welcome(Meet *m, const Stranger *s) {
  const PmTcpGreeting *g = &s->greeting;
  struct sockaddr_storage theirs, ours;
  socklen_t len = sizeof theirs, our_len = sizeof ours;
  Place our, *p = &m->places[g->rank];
  if (getpeername(s->fd, (struct sockaddr *)&theirs, &len) != 0) return false;
  if (getsockname(s->fd, (struct sockaddr *)&ours, &our_len) != 0) return false;
  m->fds[g->rank] = s->fd;
  if (m->o->rank > 0) return true;
  place_of(&theirs, p);
  place_of(&ours, &our);
  p->port = (uint16_t)g->port;
  p->beside_first = is_loopback(p) || memcmp(p->ip, our.ip, sizeof p->ip) == 0;
  answer(s->fd, PM_OK, NULL, 0, 0);
  return true;
}

// What is wrong with a greeting; `out_text` stays empty when it is none of ours.
static PmCode judge(const Meet *m, const PmTcpGreeting *g, char *out_text, size_t room) {
  bool whole = g->magic == PM_TCP_GREETING_MAGIC && g->check == pm_hash64(g, offsetof(PmTcpGreeting, check), 0);
  if (!whole) return PM_ERR_PEER;
  if (g->version != VERSION) {
    snprintf(out_text, room, "a rank came with another version of pmodel: all ranks need the same");
    return PM_ERR_ENVIRONMENT;
  }
  if (g->size != m->o->size) {
    snprintf(out_text, room, "rank %lld came as one of %lld processes, rank %lld is one of %lld", (long long)g->rank,
             (long long)g->size, (long long)m->o->rank, (long long)m->o->size);
    return PM_ERR_USAGE;
  }
  if (g->rank <= m->o->rank || g->rank >= m->o->size || m->fds[g->rank] >= 0) {
    snprintf(out_text, room, "a second process came as rank %lld: every process has its own `RANK`",
             (long long)g->rank);
    return PM_ERR_USAGE;
  }
  return g->key == m->key && g->port >= 1 && g->port <= UINT16_MAX ? PM_OK : PM_ERR_PEER;
}

static void hear(Meet *m, Stranger *s) {
  ssize_t n = recv(s->fd, (char *)&s->greeting + s->got, sizeof s->greeting - s->got, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n > 0) s->got += (size_t)n;
  if (n > 0 && s->got < sizeof s->greeting) return;
  char text[TEXT_BYTES] = "";
  PmCode fault = n > 0 ? judge(m, &s->greeting, text, sizeof text) : PM_ERR_PEER;
  if (!fault && welcome(m, s)) {
    s->fd = -1;
    return;
  }
  if (text[0]) {
    // What fits the socket's buffer at once: nobody waits for a stranger.
    answer(s->fd, (int32_t)fault, text, strlen(text), 0);
    memcpy(m->refused, text, sizeof text);
  }
  close_fd(&s->fd);
}

static void let_in(Meet *m) {
  struct sockaddr_storage a;
  socklen_t len = sizeof a;
  int fd = accept4(m->listener, (struct sockaddr *)&a, &len, SOCK_CLOEXEC);
  if (fd < 0) return;
  if (!set_up(fd)) {
    close(fd);
    return;
  }
  m->strangers[m->n_strangers++] = (Stranger){.fd = fd, .until = pm_clock_seconds() + GREETING_S};
}

static int64_t n_missing(const Meet *m) {
  int64_t n = 0;
  for (int64_t r = m->o->rank + 1; r < m->o->size; r++) n += m->fds[r] < 0;
  return n;
}

static PmStatus *too_late(const Meet *m) {
  PmBuf ranks;
  pm_buf_init(&ranks);
  for (int64_t r = m->o->rank + 1; r < m->o->size; r++) {
    if (m->fds[r] < 0) pm_buf_printf(&ranks, "%s%lld", ranks.len ? ", " : "", (long long)r);
  }
  PmStatus *st = PM_STATUS(PM_ERR_DEADLINE, "rank %lld has waited %.1f s for rank %s to connect (%s port %d)%s%s",
                           (long long)m->o->rank, m->o->deadline_s, pm_buf_str(&ranks), m->o->host, (int)m->o->port,
                           m->refused[0] ? "; refused: " : "", m->refused);
  pm_buf_deinit(&ranks);
  return st;
}

// Ranks that wait for rank 0's table have nothing to say; rank 0 may be ahead, but stays.
static PmStatus *check_waiting(const Meet *m, const struct pollfd *polls) {
  for (int64_t r = 0; r < m->o->size; r++) {
    if (polls[r].fd < 0 || !polls[r].revents) continue;
    return PM_STATUS(PM_ERR_PEER, "rank %lld left before all ranks had come", (long long)r);
  }
  return NULL;
}

// Waits for all higher ranks, in any order.
static PmStatus *be_found(Meet *m) {
  int64_t n = m->o->size;
  struct pollfd *polls = calloc((size_t)n + 1 + MAX_STRANGERS, sizeof *polls);
  if (!polls) pm_memory_exhausted((size_t)n * sizeof *polls, 0);
  PmStatus *st = NULL;
  while (!st && n_missing(m) > 0) {
    double now = pm_clock_seconds(), next = m->until;
    for (int64_t r = 0; r < n; r++) {
      bool watched = m->o->rank == 0 || r == 0;
      polls[r] = (struct pollfd){.fd = watched ? m->fds[r] : -1, .events = r > 0 ? POLLIN : POLLRDHUP};
    }
    // Who finds no place among the strangers waits in the socket's queue.
    polls[n] = (struct pollfd){.fd = m->n_strangers < MAX_STRANGERS ? m->listener : -1, .events = POLLIN};
    for (int32_t i = 0; i < m->n_strangers; i++) {
      polls[n + 1 + i] = (struct pollfd){.fd = m->strangers[i].fd, .events = POLLIN};
      if (m->strangers[i].until < next) next = m->strangers[i].until;
    }
    int32_t heard = m->n_strangers;
    if (now >= m->until) st = too_late(m);
    if (!st && poll(polls, (nfds_t)(n + 1 + heard), milliseconds(next - now)) < 0) {
      if (errno == EINTR) continue;
      st = PM_STATUS(PM_ERR_ENVIRONMENT, "cannot wait for %lld ranks: %s", (long long)n, strerror(errno));
    }
    if (!st) st = check_waiting(m, polls);
    for (int32_t i = 0; i < heard && !st; i++) {
      if (polls[n + 1 + i].revents) hear(m, &m->strangers[i]);
      if (pm_clock_seconds() > m->strangers[i].until) close_fd(&m->strangers[i].fd);
    }
    if (!st && polls[n].revents) let_in(m);
    int32_t kept = 0;
    for (int32_t i = 0; i < m->n_strangers; i++) {
      if (m->strangers[i].fd >= 0) m->strangers[kept++] = m->strangers[i];
    }
    m->n_strangers = kept;
  }
  free(polls);
  return st;
}

// ---- finding -------------------------------------------------------------------------------------------------------
static PmStatus *no_rank_0(const Meet *m, const char *why) {
  return PM_STATUS(PM_ERR_ENVIRONMENT,
                   "what listens at %s port %d is no rank 0 of pmodel (%s): `--master-port` chooses another port",
                   m->o->host, (int)m->o->port, why);
}

// An answer of rank 0 with `n` bytes behind it.
static PmStatus *read_answer(const Meet *m, void *out, size_t n, double until) {
  Answer a;
  char text[TEXT_BYTES] = "";
  int err = read_all(m->fds[0], &a, sizeof a, until);
  if (err && n > 0) {
    return PM_STATUS(PM_ERR_PEER, "rank %lld waits at rank 0 (%s port %d) for all ranks to come: %s",
                     (long long)m->o->rank, m->o->host, (int)m->o->port, strerror(err));
  }
  if (err) return no_rank_0(m, err == ETIMEDOUT ? "no answer" : strerror(err));
  if (a.magic != PM_TCP_GREETING_MAGIC || a.n < 0) return no_rank_0(m, "another answer");
  if (a.code == PM_OK && (size_t)a.n == n) {
    err = n > 0 ? read_all(m->fds[0], out, n, until) : 0;
    return err ? PM_STATUS(PM_ERR_PEER, "rank 0 is lost (%s) before all ranks have come", strerror(err)) : NULL;
  }
  if (a.code == PM_OK || a.n >= TEXT_BYTES) return no_rank_0(m, "another answer");
  (void)read_all(m->fds[0], text, (size_t)a.n, until);
  return PM_STATUS((PmCode)a.code, "%s", text);
}

static int try_addresses(Meet *m, const struct addrinfo *list) {
  int err = EADDRNOTAVAIL;
  for (const struct addrinfo *a = list; a; a = a->ai_next) {
    err = connect_to(a->ai_addr, a->ai_addrlen, m->until, &m->fds[0]);
    if (err) continue;
    struct sockaddr_storage address;
    memcpy(&address, a->ai_addr, a->ai_addrlen);
    place_of(&address, &m->first);
    return 0;
  }
  return err;
}

// Rank 0 may come later than this one.
static PmStatus *find_first(Meet *m) {
  char port[16];
  snprintf(port, sizeof port, "%d", (int)m->o->port);
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
  int err = getaddrinfo(m->o->host, port, &hints, &list);
  if (err) return PM_STATUS(PM_ERR_ENVIRONMENT, "the address of rank 0, `%s`: %s", m->o->host, gai_strerror(err));
  while ((err = try_addresses(m, list)) != 0 && pm_clock_seconds() < m->until) {
    nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
  }
  freeaddrinfo(list);
  if (!err) return NULL;
  return PM_STATUS(PM_ERR_DEADLINE, "rank %lld has waited %.1f s for rank 0 at %s port %d: %s", (long long)m->o->rank,
                   m->o->deadline_s, m->o->host, (int)m->o->port, strerror(err));
}

static PmStatus *greet(Meet *m, int64_t rank, uint32_t port) {
  PmTcpGreeting g = pm_tcp_greeting(m->o->rank, m->o->size, port, m->key);
  int err = write_all(m->fds[rank], &g, sizeof g, m->until);
  if (!err) return NULL;
  return PM_STATUS(PM_ERR_PEER, "rank %lld is lost (%s) before all ranks have come", (long long)rank, strerror(err));
}

static PmStatus *find_lower(Meet *m, uint32_t port) {
  for (int64_t r = 1; r < m->o->rank; r++) {
    Place p = m->places[r];
    if (p.beside_first) memcpy(p.ip, m->first.ip, sizeof p.ip);
    struct sockaddr_storage a;
    socklen_t len = address_of(&p, &a);
    int err = connect_to((struct sockaddr *)&a, len, m->until, &m->fds[r]);
    if (err) {
      char ip[INET6_ADDRSTRLEN] = "";
      inet_ntop(AF_INET6, p.ip, ip, sizeof ip);
      return PM_STATUS(PM_ERR_PEER, "rank %lld does not reach rank %lld at %s port %d: %s", (long long)m->o->rank,
                       (long long)r, ip, (int)p.port, strerror(err));
    }
    PM_TRY(greet(m, r, port));
  }
  return NULL;
}

// ---- meeting -------------------------------------------------------------------------------------------------------
typedef struct Table {
  uint64_t key;
  Place places[];
} Table;

static PmStatus *tell_all(Meet *m, Table *t, size_t bytes) {
  if (getrandom(&m->key, sizeof m->key, 0) != sizeof m->key) {
    return PM_STATUS(PM_ERR_ENVIRONMENT, "the system gives no random number");
  }
  t->key = m->key;
  for (int64_t r = 1; r < m->o->size; r++) {
    Answer a = {PM_TCP_GREETING_MAGIC, 0, (int32_t)bytes};
    int err = write_all(m->fds[r], &a, sizeof a, m->until);
    if (!err) err = write_all(m->fds[r], t, bytes, m->until);
    if (err) return PM_STATUS(PM_ERR_PEER, "rank %lld left before all ranks had come", (long long)r);
  }
  return NULL;
}

static PmStatus *lead(Meet *m, Table *t, size_t bytes) {
  int err = open_listener(m, (uint16_t)m->o->port);
  if (err) {
    return PM_STATUS(PM_ERR_ENVIRONMENT, "rank 0 cannot listen at %s port %d: %s; `--master-port` chooses another port",
                     m->o->host, (int)m->o->port, strerror(err));
  }
  m->places[0].beside_first = 1;
  PmStatus *st = be_found(m);
  if (!st) st = tell_all(m, t, bytes);
  for (int64_t r = 1; r < m->o->size && st; r++) {
    const char *text = pm_status_message(st);
    if (m->fds[r] >= 0) answer(m->fds[r], (int32_t)pm_status_code(st), text, strnlen(text, TEXT_BYTES - 1), 0);
  }
  return st;
}

static PmStatus *join(Meet *m, Table *t, size_t bytes) {
  int err = open_listener(m, 0);
  if (err) return PM_STATUS(PM_ERR_ENVIRONMENT, "cannot listen for other ranks: %s", strerror(err));
  uint32_t port = local_port(m->listener);
  PM_TRY(find_first(m));
  PM_TRY(greet(m, 0, port));
  double until = pm_clock_seconds() + ANSWER_S;
  PM_TRY(read_answer(m, NULL, 0, until < m->until ? until : m->until));
  PM_TRY(read_answer(m, t, bytes, m->until));
  m->key = t->key;
  PM_TRY(find_lower(m, port));
  return be_found(m);
}

static int64_t count_here(const Meet *m) {
  const Place *mine = &m->places[m->o->rank];
  int64_t n = 0;
  for (int64_t r = 0; r < m->o->size; r++) {
    const Place *p = &m->places[r];
    n += (p->beside_first && mine->beside_first) || memcmp(p->ip, mine->ip, sizeof p->ip) == 0;
  }
  return n;
}

// Every rank is an open file.
static PmStatus *allow_files(const PmTcpOptions *o) {
  struct rlimit limit;
  rlim_t need = (rlim_t)o->size + MAX_STRANGERS + OTHER_FILES;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need) return NULL;
  limit.rlim_cur = need < limit.rlim_max ? need : limit.rlim_max;
  if (limit.rlim_cur == need && setrlimit(RLIMIT_NOFILE, &limit) == 0) return NULL;
  return PM_STATUS(PM_ERR_ENVIRONMENT, "%lld ranks over TCP take %lld open files (`ulimit -n`)", (long long)o->size,
                   (long long)need);
}

PmStatus *pm_tcp_meet(const PmTcpOptions *o, int *out_fds, int64_t *out_here) {
  size_t n = (size_t)o->size, bytes = sizeof(Table) + n * sizeof(Place);
  Meet *m = calloc(1, sizeof *m);
  Table *t = calloc(1, bytes);
  if (!m || !t) pm_memory_exhausted(sizeof *m + bytes, 0);
  *m = (Meet){.o = o, .until = pm_clock_seconds() + o->deadline_s, .listener = -1, .fds = out_fds, .places = t->places};
  for (size_t r = 0; r < n; r++) out_fds[r] = -1;
  PmStatus *st = allow_files(o);
  if (!st) st = o->rank == 0 ? lead(m, t, bytes) : join(m, t, bytes);
  *out_here = count_here(m);
  close_fd(&m->listener);
  for (int32_t i = 0; i < m->n_strangers; i++) close_fd(&m->strangers[i].fd);
  for (size_t r = 0; r < n && st; r++) close_fd(&out_fds[r]);
  free(t);
  free(m);
  return st;
}

// What TCP brings: frames cut at any byte, in any order with their receives, and connections from strangers.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "runtime/comm/tcp.h"
#include "runtime/comm/tcp_inbox.h"
#include "runtime/comm/tcp_meet.h"
#include "runtime/futex.h"

// ---- the inbox -----------------------------------------------------------------------------------------------------
static uint8_t unwanted[(PM_TRANSPORT_MAX_TAG + 8) / 8];

// Puts bytes in until they are all there or one has no place; so many were taken.
static int64_t feed(PmTcpInbox *b, const char *bytes, int64_t n, int64_t step) {
  int64_t done = 0;
  while (done < n) {
    char *at;
    int64_t room;
    pm_tcp_inbox_place(b, &at, &room);
    if (room == 0) return done;
    if (room > step) room = step;
    if (room > n - done) room = n - done;
    memcpy(at, bytes + done, (size_t)room);
    assert_true(pm_tcp_inbox_advance(b, room));
    done += room;
  }
  return done;
}

static int64_t put_frame(char *to, int tag, const char *text) {
  int64_t n = (int64_t)strlen(text);
  PmTcpFrame f = pm_tcp_frame(tag, n);
  memcpy(to, &f, sizeof f);
  memcpy(to + sizeof f, text, (size_t)n);
  return (int64_t)sizeof f + n;
}

static void frames_cut_anywhere(void **state) {
  (void)state;
  static const char *const texts[] = {"one", "", "the second of tag 5", "three"};
  static const int tags[] = {5, 9, 5, PM_TRANSPORT_MAX_TAG};
  char stream[256];
  int64_t n = 0;
  for (int i = 0; i < 4; i++) n += put_frame(stream + n, tags[i], texts[i]);
  // `early` receives are posted before anything comes, the others behind it.
  for (int early = 0; early < 16; early++) {
    for (int64_t step = 1; step <= n; step++) {
      PmTcpInbox b;
      char bytes[4][64];
      PmTcpReceive r[4];
      pm_tcp_inbox_init(&b, unwanted);
      for (int i = 0; i < 4; i++) r[i] = (PmTcpReceive){.bytes = bytes[i], .n = sizeof bytes[i], .tag = tags[i]};
      // The receives of one tag are posted in order.
      int first = early & 1 || early & 4 ? early | 1 : early;
      for (int i = 0; i < 4; i++) {
        if (first >> i & 1) pm_tcp_inbox_post(&b, &r[i]);
      }
      assert_int_equal(feed(&b, stream, n, step), n);
      for (int i = 0; i < 4; i++) {
        if (!(first >> i & 1)) pm_tcp_inbox_post(&b, &r[i]);
        assert_int_equal(r[i].state, PM_TCP_DONE);
        assert_memory_equal(bytes[i], texts[i], strlen(texts[i]));
      }
      pm_tcp_inbox_deinit(&b);
    }
  }
}

static void large_messages_wait_for_their_receive(void **state) {
  (void)state;
  int64_t n = PM_TCP_SMALL_BYTES + 1, head = sizeof(PmTcpFrame);
  char *stream = calloc(1, (size_t)(head + n)), *bytes = calloc(1, (size_t)n);
  PmTcpFrame f = pm_tcp_frame(1, n);
  memcpy(stream, &f, sizeof f);
  memset(stream + head, 7, (size_t)n);
  PmTcpInbox b;
  pm_tcp_inbox_init(&b, unwanted);
  assert_int_equal(feed(&b, stream, head + n, 1000), head);
  PmTcpReceive r = {.bytes = bytes, .n = n, .tag = 1};
  pm_tcp_inbox_post(&b, &r);
  assert_int_equal(feed(&b, stream + head, n, 1000), n);
  assert_int_equal(r.state, PM_TCP_DONE);
  assert_memory_equal(bytes, stream + head, (size_t)n);
  // One that is forgotten in the middle is read to its end and leaves the memory alone.
  memset(bytes, 0, (size_t)n);
  pm_tcp_inbox_post(&b, &r);
  assert_int_equal(feed(&b, stream, head + 10, 1000), head + 10);
  pm_tcp_inbox_forget(&b, &r);
  assert_int_equal(feed(&b, stream + head + 10, n - 10, 1000), n - 10);
  assert_int_equal(bytes[10], 0);
  // Of a tag that nobody wants: nothing waits.
  assert_int_equal(feed(&b, stream, head + n, 1000), head);
  pm_tcp_set_unwanted(unwanted, 1, true);
  assert_int_equal(feed(&b, stream + head, n, 1000), n);
  pm_tcp_set_unwanted(unwanted, 1, false);
  pm_tcp_inbox_deinit(&b);
  free(stream);
  free(bytes);
}

static void what_is_kept_is_bounded(void **state) {
  (void)state;
  char frame[64];
  int64_t n = put_frame(frame, 3, "x"), kept = 0;
  PmTcpInbox b;
  pm_tcp_inbox_init(&b, unwanted);
  while (feed(&b, frame, n, n) == n) assert_true(++kept <= PM_TCP_MAX_KEPT);
  assert_int_equal(kept, PM_TCP_MAX_KEPT);
  assert_int_equal(pm_tcp_inbox_take(&b, 3, frame, sizeof frame), 1);
  assert_int_equal(frame[0], 'x');
  pm_tcp_inbox_purge(&b, 3);
  assert_int_equal(pm_tcp_inbox_take(&b, 3, frame, sizeof frame), -1);
  pm_tcp_inbox_deinit(&b);
}

static void a_message_longer_than_its_receive(void **state) {
  (void)state;
  char stream[64], bytes[4] = "abc";
  int64_t n = put_frame(stream, 3, "four bytes");
  for (int early = 0; early < 2; early++) {
    PmTcpInbox b;
    PmTcpReceive r = {.bytes = bytes, .n = 3, .tag = 3};
    pm_tcp_inbox_init(&b, unwanted);
    if (early) pm_tcp_inbox_post(&b, &r);
    assert_int_equal(feed(&b, stream, n, n), n);
    if (!early) pm_tcp_inbox_post(&b, &r);
    assert_int_equal(r.state, PM_TCP_TOO_LONG);
    assert_string_equal(bytes, "abc");
    pm_tcp_inbox_deinit(&b);
  }
}

static void what_is_no_frame(void **state) {
  (void)state;
  PmTcpFrame bad[] = {pm_tcp_frame(1, 4), pm_tcp_frame(-1, 4), pm_tcp_frame(PM_TRANSPORT_MAX_TAG + 1, 4),
                      pm_tcp_frame(1, -1), pm_tcp_frame(1, PM_TCP_MAX_BYTES + 1)};
  bad[0].magic++;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    PmTcpInbox b;
    char *at;
    int64_t room;
    pm_tcp_inbox_init(&b, unwanted);
    pm_tcp_inbox_place(&b, &at, &room);
    assert_int_equal(room, sizeof *bad);
    memcpy(at, &bad[i], sizeof *bad);
    assert_false(pm_tcp_inbox_advance(&b, room));
    pm_tcp_inbox_deinit(&b);
  }
}

// ---- meeting -------------------------------------------------------------------------------------------------------
enum { RANKS = 3, PORT = 29500 };

typedef struct Rank {
  pthread_t thread;
  PmTcpOptions o;
  PmTransport *t;
  PmStatus *st;
  char host[32];
} Rank;

static void *open_rank(void *arg) {
  Rank *r = arg;
  r->st = pm_tcp_open(&r->o, &r->t);
  return NULL;
}

static void start_rank(Rank *r, const char *host, int64_t rank, int64_t size, double deadline_s) {
  *r = (Rank){.o = {.port = PORT, .rank = rank, .size = size, .deadline_s = deadline_s}};
  snprintf(r->host, sizeof r->host, "%s", host);
  r->o.host = r->host;
  assert_int_equal(pthread_create(&r->thread, NULL, open_rank, r), 0);
}

static void *close_rank(void *arg) {
  PmTransport *t = ((Rank *)arg)->t;
  t->vtbl->close(t);
  return NULL;
}

// An address of loopback for each test of each process.
static void own_host(char *out, size_t room) {
  static int count;
  snprintf(out, room, "127.%d.%d.%d", getpid() >> 8 & 255, getpid() & 255, ++count);
}

// A connection to rank 0, when it is there.
static int knock(const char *host) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  assert_int_equal(inet_pton(AF_INET, host, &a.sin_addr), 1);
  for (;;) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
    close(fd);
    usleep(1000);
  }
}

// What it is told: 0 and a code, or -1 when it is cut off.
static int32_t told(int fd) {
  struct {
    uint64_t magic;
    int32_t code, n;
  } a;
  return recv(fd, &a, sizeof a, MSG_WAITALL) == sizeof a ? a.code : -1;
}

static void say(int fd, const void *bytes, size_t n) { assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n); }

static void strangers_are_refused(void **state) {
  (void)state;
  char host[32];
  Rank ranks[RANKS];
  own_host(host, sizeof host);
  start_rank(&ranks[0], host, 0, RANKS, 60);
  start_rank(&ranks[1], host, 1, RANKS, 60);
  int silent = knock(host), half = knock(host), gone = knock(host);
  PmTcpGreeting g = pm_tcp_greeting(2, RANKS, 4000, 0);
  say(half, &g, sizeof g / 2);
  close(gone);
  static const char web[] = "GET / HTTP/1.1\r\nHost: somewhere\r\nAccept: anything that is long enough\r\n\r\n";
  int fd = knock(host);
  say(fd, web, sizeof web);
  assert_int_equal(told(fd), -1);
  close(fd);
  PmTcpGreeting wrong[] = {
      pm_tcp_greeting(2, RANKS + 1, 4000, 0),
      pm_tcp_greeting(0, RANKS, 4000, 0),
      pm_tcp_greeting(-1, RANKS, 4000, 0),
      pm_tcp_greeting(INT64_C(1) << 62, RANKS, 1, 0),
      pm_tcp_greeting(2, RANKS, 4000, 1),
      pm_tcp_greeting(2, RANKS, UINT16_MAX + 1, 0),
      g,
  };
  g.rank = 1;  // the check no longer fits
  wrong[6] = g;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    fd = knock(host);
    say(fd, &wrong[i], sizeof wrong[i]);
    assert_int_not_equal(told(fd), 0);
    close(fd);
  }
  start_rank(&ranks[2], host, 2, RANKS, 60);
  for (int r = 0; r < RANKS; r++) {
    pthread_join(ranks[r].thread, NULL);
    if (ranks[r].st) fail_msg("rank %d: %s", r, pm_status_message(ranks[r].st));
    assert_int_equal(ranks[r].t->here, RANKS);
  }
  close(silent);
  close(half);
  for (int r = 0; r < RANKS; r++) assert_int_equal(pthread_create(&ranks[r].thread, NULL, close_rank, &ranks[r]), 0);
  for (int r = 0; r < RANKS; r++) pthread_join(ranks[r].thread, NULL);
}

static void expect_end(Rank *r, PmCode code, const char *text) {
  pthread_join(r->thread, NULL);
  assert_int_equal(pm_status_code(r->st), code);
  if (!strstr(pm_status_message(r->st), text)) fail_msg("`%s` lacks `%s`", pm_status_message(r->st), text);
  pm_status_drop(r->st);
}

static void who_is_missing_is_named(void **state) {
  (void)state;
  char host[32];
  Rank ranks[2];
  own_host(host, sizeof host);
  start_rank(&ranks[0], host, 0, 4, 1);
  start_rank(&ranks[1], host, 2, 4, 60);
  // Rank 0 tells those that have come.
  expect_end(&ranks[0], PM_ERR_DEADLINE, "rank 0 has waited 1.0 s for rank 1, 3 to connect");
  expect_end(&ranks[1], PM_ERR_DEADLINE, "rank 0 has waited 1.0 s for rank 1, 3 to connect");
}

static void a_second_process_of_a_rank_and_one_that_leaves(void **state) {
  (void)state;
  char host[32];
  Rank first;
  own_host(host, sizeof host);
  start_rank(&first, host, 0, RANKS, 60);
  int fd = knock(host);
  PmTcpGreeting g = pm_tcp_greeting(2, RANKS, 4000, 0);
  say(fd, &g, sizeof g);
  assert_int_equal(told(fd), 0);
  int second = knock(host);
  say(second, &g, sizeof g);
  assert_int_equal(told(second), PM_ERR_USAGE);
  close(second);
  close(fd);
  expect_end(&first, PM_ERR_PEER, "rank 2 left before all ranks had come");
}

static void what_listens_is_no_rank_0(void **state) {
  (void)state;
  char host[32];
  own_host(host, sizeof host);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  assert_int_equal(inet_pton(AF_INET, host, &a.sin_addr), 1);
  int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
  assert_int_equal(listen(listener, 4), 0);
  Rank r;
  for (int talks = 0; talks < 2; talks++) {
    start_rank(&r, host, 1, 2, 60);
    int fd = accept(listener, NULL, NULL);
    char greeting[48], nonsense[48] = "220 mail.example.org ready at your service";
    assert_int_equal(recv(fd, greeting, sizeof greeting, MSG_WAITALL), sizeof greeting);
    if (talks) say(fd, nonsense, sizeof nonsense);
    close(fd);
    expect_end(&r, PM_ERR_ENVIRONMENT, "is no rank 0 of pmodel");
  }
  start_rank(&r, host, 0, 2, 60);
  expect_end(&r, PM_ERR_ENVIRONMENT, "cannot listen");
  close(listener);
}

static void numbers_that_make_no_run(void **state) {
  (void)state;
  static const int64_t bad[][2] = {{-1, 2}, {2, 2}, {0, PM_TCP_MAX_RANKS + 1}, {0, 0}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    PmTcpOptions o = {.host = "127.0.0.1", .port = PORT, .rank = bad[i][0], .size = bad[i][1], .deadline_s = 1};
    PmTransport *t;
    PmStatus *st = pm_tcp_open(&o, &t);
    assert_int_equal(pm_status_code(st), PM_ERR_USAGE);
    assert_null(t);
    pm_status_drop(st);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(frames_cut_anywhere),       cmocka_unit_test(large_messages_wait_for_their_receive),
      cmocka_unit_test(what_is_kept_is_bounded),   cmocka_unit_test(a_message_longer_than_its_receive),
      cmocka_unit_test(what_is_no_frame),          cmocka_unit_test(strangers_are_refused),
      cmocka_unit_test(who_is_missing_is_named),   cmocka_unit_test(a_second_process_of_a_rank_and_one_that_leaves),
      cmocka_unit_test(what_listens_is_no_rank_0), cmocka_unit_test(numbers_that_make_no_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

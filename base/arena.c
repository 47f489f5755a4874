#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/status.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISON 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_POISON 1
#endif

// Under AddressSanitizer the unused part of a block is poisoned, and a gap follows each allocation, so that an overrun
// inside an arena is reported like one of malloc's.
#if defined(ARENA_POISON)
#include <sanitizer/asan_interface.h>
#define POISON(p, n) __asan_poison_memory_region((p), (n))
#define UNPOISON(p, n) __asan_unpoison_memory_region((p), (n))
#define GAP ((size_t)16)
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#define GAP ((size_t)0)
#endif

#define ALIGN ((size_t)16)
#define FIRST_BLOCK ((size_t)4096)
#define LAST_BLOCK ((size_t)1 << 20)

struct PmArenaBlock {
  PmArenaBlock *next;
  size_t size, used;  // bytes of `data`
  _Alignas(16) unsigned char data[];
};

_Noreturn void pm_memory_exhausted(size_t wanted, size_t limit) {
  if (limit) {
    fprintf(stderr, "pmodel: error: the memory limit of %zu bytes is reached (%zu more were asked for)\n", limit,
            wanted);
  } else {
    fprintf(stderr, "pmodel: error: out of memory (%zu bytes were asked for)\n", wanted);
  }
  fflush(stderr);
  _Exit(PM_ERR_LIMIT);
}

static _Noreturn void exhausted(const PmArena *arena, size_t wanted) {
  if (arena->put_place) {
    fputs("pmodel: note: ", stderr);
    arena->put_place(arena->place_context, stderr);
    fputs(" needs more memory than there is\n", stderr);
  }
  pm_memory_exhausted(wanted, arena->limit);
}

void pm_arena_init(PmArena *arena, size_t limit) { *arena = (PmArena){.head = NULL, .used = 0, .limit = limit}; }

// Those from b on that stand before `end`.
static void free_blocks(PmArenaBlock *b, const PmArenaBlock *end) {
  while (b != end) {
    PmArenaBlock *next = b->next;
    UNPOISON(b->data, b->size);
    free(b);
    b = next;
  }
}

void pm_arena_deinit(PmArena *arena) {
  free_blocks(arena->head, NULL);
  *arena = (PmArena){0};
}

void pm_arena_reset(PmArena *arena) {
  arena->used = 0;
  if (!arena->head) return;
  free_blocks(arena->head->next, NULL);
  arena->head->next = NULL;
  arena->head->used = 0;
  POISON(arena->head->data, arena->head->size);
}

PmArenaMark pm_arena_mark(const PmArena *arena) {
  PmArenaBlock *head = arena->head;
  return (PmArenaMark){head, head ? head->next : NULL, head ? head->used : 0, arena->used};
}

void pm_arena_rewind(PmArena *arena, PmArenaMark mark) {
  free_blocks(arena->head, mark.head);
  arena->head = mark.head;
  arena->used = mark.used;
  if (!mark.head) return;
  free_blocks(mark.head->next, mark.next);  // blocks of their own stand behind the head
  mark.head->next = mark.next;
  mark.head->used = mark.head_used;
  POISON(mark.head->data + mark.head_used, mark.head->size - mark.head_used);
}

static PmArenaBlock *block_new(size_t size) {
  PmArenaBlock *b = malloc(sizeof *b + size);
  if (!b) pm_memory_exhausted(size, 0);
  b->next = NULL;
  b->size = size;
  b->used = 0;
  POISON(b->data, size);
  return b;
}

// A block with room for `need` bytes. A request that is large beside the newest block gets a block of its own behind
// it, so that the rest of the newest block isn't lost.
static PmArenaBlock *block_for(PmArena *arena, size_t need) {
  PmArenaBlock *head = arena->head;
  if (head && head->size - head->used >= need) return head;
  size_t size = !head ? FIRST_BLOCK : head->size < LAST_BLOCK ? head->size * 2 : LAST_BLOCK;
  if (head && need > size / 4) {
    PmArenaBlock *own = block_new(need);
    own->next = head->next;
    head->next = own;
    return own;
  }
  PmArenaBlock *b = block_new(need > size ? need : size);
  b->next = head;
  arena->head = b;
  return b;
}

void *pm_arena_alloc(PmArena *arena, size_t size) {
  if (size > SIZE_MAX / 4) exhausted(arena, size);
  size_t need = ((size ? size : 1) + GAP + ALIGN - 1) & ~(ALIGN - 1);
  if (arena->limit && (arena->used > arena->limit || need > arena->limit - arena->used)) {
    exhausted(arena, size);
  }
  PmArenaBlock *b = block_for(arena, need);
  void *p = b->data + b->used;
  b->used += need;
  arena->used += need;
  UNPOISON(p, size);
  memset(p, 0, size);
  return p;
}

void *pm_arena_alloc_n(PmArena *arena, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) exhausted(arena, SIZE_MAX);
  return pm_arena_alloc(arena, bytes);
}

void *pm_arena_copy(PmArena *arena, const void *data, int32_t count, size_t size) {
  if (count <= 0 || !data) return NULL;
  void *out = pm_arena_alloc_n(arena, (size_t)count, size);
  memcpy(out, data, (size_t)count * size);
  return out;
}

char *pm_arena_strdup(PmArena *arena, const char *s) { return pm_arena_strndup(arena, s, strlen(s)); }

char *pm_arena_strndup(PmArena *arena, const char *s, size_t n) {
  n = strnlen(s, n);
  char *copy = pm_arena_alloc(arena, n + 1);
  memcpy(copy, s, n);
  return copy;
}

char *pm_arena_printf(PmArena *arena, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  PM_ASSERT(n >= 0, "format `%s`", fmt);
  char *text = pm_arena_alloc(arena, (size_t)n + 1);
  vsnprintf(text, (size_t)n + 1, fmt, again);
  va_end(again);
  return text;
}

void *pm_grow(PmArena *arena, void *data, int32_t len, int32_t *cap, size_t elem) {
  PM_ASSERT(len >= 0 && len <= *cap, "length %d, capacity %d", len, *cap);
  if (len < *cap) return data;
  int32_t wider = 8;
  if (*cap > INT32_MAX / 2) exhausted(arena, SIZE_MAX);
  if (*cap >= wider) wider = *cap * 2;
  void *moved = pm_arena_alloc_n(arena, (size_t)wider, elem);
  if (len) memcpy(moved, data, (size_t)len * elem);
  *cap = wider;
  return moved;
}

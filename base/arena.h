// Bump arenas: the one way to allocate in ir/, frontend/, passes/ and codegen/.
//
// Ownership: an arena owns every byte that it hands out; nothing is freed singly. An arena belongs to one thread.
// When the system (or the arena's limit) has no more memory the process reports it and exits with code 4
// (a limit was hit): compilers have no useful way to go on, and hostile input must not take the machine down.
#ifndef PM_BASE_ARENA_H
#define PM_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct PmArenaBlock PmArenaBlock;
typedef struct PmArena {
  PmArenaBlock *head;
  size_t used;   // bytes handed out so far
  size_t limit;  // most bytes that may be handed out; 0: no limit
  void (*put_place)(void *context, FILE *to);  // where the work is that needs the memory, for people; or NULL
  void *place_context;
} PmArena;

void pm_arena_init(PmArena *arena, size_t limit);
void pm_arena_deinit(PmArena *arena);
// Keeps the newest block for reuse and drops the rest; every earlier pointer becomes invalid.
void pm_arena_reset(PmArena *arena);

// A point in an arena's life. Rewinding gives back all that was handed out since; pointers to it, and into arrays that
// have grown since, become invalid. Marks are rewound to innermost first; one may be rewound to many times.
typedef struct PmArenaMark {
  PmArenaBlock *head, *next;
  size_t head_used, used;
} PmArenaMark;
PmArenaMark pm_arena_mark(const PmArena *arena);
void pm_arena_rewind(PmArena *arena, PmArenaMark mark);

// Zeroed, aligned to 16 bytes. Never NULL.
void *pm_arena_alloc(PmArena *arena, size_t size);
// `count * size` with a checked product.
void *pm_arena_alloc_n(PmArena *arena, size_t count, size_t size);
// A copy of `count` elements; NULL for none.
void *pm_arena_copy(PmArena *arena, const void *data, int32_t count, size_t size);
char *pm_arena_strdup(PmArena *arena, const char *s);
char *pm_arena_strndup(PmArena *arena, const char *s, size_t n);
char *pm_arena_printf(PmArena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define PM_NEW(arena, T) ((T *)pm_arena_alloc((arena), sizeof(T)))
#define PM_NEW_N(arena, T, n) ((T *)pm_arena_alloc_n((arena), (size_t)(n), sizeof(T)))

// Makes room for one more element of a growing array and returns the (possibly moved) array:
//   f->nodes = pm_grow(arena, f->nodes, f->n_nodes, &f->cap_nodes, sizeof *f->nodes);
// New elements are zeroed. Keep ids, never pointers, into such an array.
void *pm_grow(PmArena *arena, void *data, int32_t len, int32_t *cap, size_t elem);

// Reports that memory (limit 0) or an arena's limit is used up, and exits with code 4.
_Noreturn void pm_memory_exhausted(size_t wanted, size_t limit);

#endif

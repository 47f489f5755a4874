#include "passes/net_cut.h"

#include <string.h>

void pm_net_init(PmNet *f, PmArena *arena, int32_t n_vertices) {
  *f = (PmNet){.arena = arena, .n_vertices = n_vertices};
  f->first = PM_NEW_N(arena, int32_t, n_vertices);
  for (int32_t v = 0; v < n_vertices; v++) f->first[v] = -1;
}

static void half_edge(PmNet *f, int32_t from, int32_t to, int64_t room) {
  f->edges = pm_grow(f->arena, f->edges, f->n_edges, &f->cap_edges, sizeof *f->edges);
  f->edges[f->n_edges] = (struct PmNetEdge){.to = to, .next = f->first[from], .room = room};
  f->first[from] = f->n_edges++;
}

void pm_net_edge(PmNet *f, int32_t from, int32_t to, int64_t capacity) {
  half_edge(f, from, to, capacity);
  half_edge(f, to, from, 0);
}

// Breadth first over edges with room; via[v]: the edge that reached v, -1 if none did.
static bool reach(const PmNet *f, int32_t source, int32_t sink, int32_t *via, int32_t *queue, bool *seen) {
  memset(seen, 0, (size_t)f->n_vertices * sizeof *seen);
  int32_t head = 0, tail = 0;
  queue[tail++] = source;
  seen[source] = true;
  while (head < tail) {
    int32_t v = queue[head++];
    for (int32_t e = f->first[v]; e >= 0; e = f->edges[e].next) {
      int32_t w = f->edges[e].to;
      if (f->edges[e].room <= 0 || seen[w]) continue;
      seen[w] = true;
      via[w] = e;
      if (w == sink) return true;
      queue[tail++] = w;
    }
  }
  return false;
}

void pm_net_min_cut(PmNet *f, int32_t source, int32_t sink, bool *out_source_side) {
  int32_t *via = PM_NEW_N(f->arena, int32_t, f->n_vertices), *queue = PM_NEW_N(f->arena, int32_t, f->n_vertices);
  while (reach(f, source, sink, via, queue, out_source_side)) {
    int64_t room = PM_NET_INF;
    for (int32_t v = sink; v != source; v = f->edges[via[v] ^ 1].to)
      if (f->edges[via[v]].room < room) room = f->edges[via[v]].room;
    for (int32_t v = sink; v != source; v = f->edges[via[v] ^ 1].to) {
      f->edges[via[v]].room -= room;
      f->edges[via[v] ^ 1].room += room;
    }
  }
}

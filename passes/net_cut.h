// Maximum flow / minimum cut on small directed graphs (shortest augmenting paths, Edmonds and Karp 1972).
#ifndef PM_PASSES_NET_CUT_H
#define PM_PASSES_NET_CUT_H

#include <stdbool.h>

#include "base/arena.h"

#define PM_NET_INF (INT64_MAX / 4)

typedef struct PmNet {
  PmArena *arena;
  int32_t n_vertices, n_edges, cap_edges;
  int32_t *first;  // per vertex: newest edge, or -1
  struct PmNetEdge {
    int32_t to, next;
    int64_t room;
  } *edges;  // edge i ^ 1 is the reverse of edge i
} PmNet;

void pm_net_init(PmNet *f, PmArena *arena, int32_t n_vertices);
// Capacities are at least 0; PM_NET_INF is never cut. Parallel edges add up.
void pm_net_edge(PmNet *f, int32_t from, int32_t to, int64_t capacity);
// out_source_side[v]: v lies on the source's side of the minimum cut that is nearest to the source. Uses the network
// up. O(V E^2).
void pm_net_min_cut(PmNet *f, int32_t source, int32_t sink, bool *out_source_side);

#endif

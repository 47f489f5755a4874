// The groups of ranks that a program's collectives need. Communicators make all of them when they are created, in the
// order of the program, so that no rank ever makes one while another waits elsewhere.
#ifndef PM_RUNTIME_COMM_GROUPS_H
#define PM_RUNTIME_COMM_GROUPS_H

#include "runtime/program.h"

// A collective among all ranks: `count` elements of `dtype`.
PmColl pm_comm_among_all(const PmProgram *p, PmCollKind kind, PmKDtype dtype, int64_t count);

// Calls fn for the collective among all ranks, then for every collective of every entry.
void pm_comm_each_coll(const PmProgram *p, void (*fn)(void *context, const PmColl *c), void *context);

static inline bool pm_comm_same_group(const PmColl *a, int32_t n_mesh, const uint8_t *mesh) {
  return a->n_mesh == n_mesh && (n_mesh == 0 || __builtin_memcmp(a->mesh, mesh, (size_t)n_mesh) == 0);
}

int64_t pm_comm_group_size(const PmProgram *p, const PmColl *c);
// Which of the groups of c's mesh axes the rank is in, and its place there.
int64_t pm_comm_group_of(const PmProgram *p, const PmColl *c, int64_t rank, int64_t *out_member);

#endif

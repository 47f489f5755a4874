#include "runtime/comm/groups.h"

#include <string.h>

PmColl pm_comm_among_all(const PmProgram *p, PmCollKind kind, PmKDtype dtype, int64_t count) {
  PmColl c = {.kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .n_mesh = p->n_mesh, .count = count};
  for (int32_t m = 0; m < p->n_mesh; m++) c.mesh[m] = (uint8_t)m;
  return c;
}

void pm_comm_each_coll(const PmProgram *p, void (*fn)(void *context, const PmColl *c), void *context) {
  PmColl all = pm_comm_among_all(p, PM_COLL_ALL_REDUCE, PM_K_F32, 0);
  fn(context, &all);
  for (int32_t e = 0; e < PM_ENTRY_COUNT; e++) {
    for (int32_t s = 0; s < p->entries[e].n_steps; s++) {
      if (p->entries[e].steps[s].kind == PM_STEP_COLL) fn(context, p->entries[e].steps[s].u.coll);
    }
  }
}

int64_t pm_comm_group_size(const PmProgram *p, const PmColl *c) {
  int64_t size = 1;
  for (int32_t i = 0; i < c->n_mesh; i++) size *= p->mesh_size[c->mesh[i]];
  return size;
}

int64_t pm_comm_group_of(const PmProgram *p, const PmColl *c, int64_t rank, int64_t *out_member) {
  int64_t member = 0, group = 0;
  for (int32_t i = 0; i < c->n_mesh; i++) {
    member = member * p->mesh_size[c->mesh[i]] + pm_program_coord(p, rank, c->mesh[i]);
  }
  for (int32_t m = 0; m < p->n_mesh; m++) {
    if (memchr(c->mesh, m, (size_t)c->n_mesh)) continue;
    group = group * p->mesh_size[m] + pm_program_coord(p, rank, m);
  }
  *out_member = member;
  return group;
}

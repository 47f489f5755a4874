// A plan while it is resolved; internal to plan.c, plan_rules.c and directives.c.
#ifndef PM_FRONTEND_PLAN_H
#define PM_FRONTEND_PLAN_H

#include "frontend/lower.h"

typedef struct PmPlanEntry {
  const char *text;
  PmSpan span;
} PmPlanEntry;

struct PmPlan {
  PmLower *lw;
  const char *name;
  const PmPlanItem **items;  // effective: children first, replaced ones left out
  int32_t n, cap;
  PmMeshAxis mesh[PM_MAX_MESH];
  int32_t n_mesh;
  PmSpan mesh_span;
  PmRule *rules;
  int32_t n_rules, cap_rules;
  PmPlanEntry *lines;  // rules and directives as `show plan` prints them
  int32_t n_lines, cap_lines;
};

int32_t pm_plan_mesh(const PmPlan *p, const char *name);
void pm_plan_no_mesh_axis(PmPlan *p, PmName name);
void pm_plan_add_shard(PmPlan *p, const PmPlanItem *item);
// The directive is `accumulate(micro=N)`.
bool pm_plan_accumulates(const PmPlanItem *item);
// Handlers of directives, whose arguments are checked: rules, or just a line of `show plan`. `chosen`: the plan will be
// used, so what this version cannot do is an error.
typedef void PmDirectiveFn(PmPlan *p, const PmPlanItem *item, bool chosen);
PmDirectiveFn pm_plan_add_accumulate, pm_plan_add_bucket, pm_plan_add_gather, pm_plan_add_overlap, pm_plan_add_pad,
    pm_plan_add_pin, pm_plan_add_remat, pm_plan_add_ring, pm_plan_add_ulysses, pm_plan_add_zero;
PmDirectiveFn pm_plan_add_later;  // of directives that are only read: an error once the plan is used

// directives.c
// What a checked size says, "25MiB" or "512", at most INT64_MAX; 0 for all else.
int64_t pm_plan_bytes(const PmExpr *e);
// Checks the directive, and reports where it may not stand as it does; else hands it to its handler.
PmDirectiveFn pm_plan_add_directive;
// Whether two directives say the same thing: one stands once in a plan, and a child's replaces its parent's.
bool pm_directive_same_slot(const PmPlanItem *a, const PmPlanItem *b);

#endif

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
// `chosen`: the plan will be used, so what this version cannot do is an error.
void pm_plan_add_directive(PmPlan *p, const PmPlanItem *item, bool chosen);
// The directive is `accumulate(micro=N)`.
bool pm_plan_accumulates(const PmPlanItem *item);
// directives.c
// Whether the directive may stand as it does; else it was reported. `chosen`: the item is of the plan that is used.
bool pm_plan_check_directive(PmPlan *p, const PmPlanItem *item, bool chosen);
// Whether two directives say the same thing: one stands once in a plan, and a child's replaces its parent's.
bool pm_directive_same_slot(const PmPlanItem *a, const PmPlanItem *b);

#endif

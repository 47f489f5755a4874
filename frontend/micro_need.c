// What must be computed after the last micro-batch: what states are assigned, and reports of sums that are not used
// linearly; with the values of the micro-batches that this needs. And what must be summed before the first.
#include "frontend/micro.h"

static const PmValue *value(const PmMicroFn *f, PmValueId v) { return &f->f.values[v]; }

typedef enum Wish { IN_LOSS, AFTER, IN_EVERY_TURN } Wish;

static bool refuse(PmMicro *mi, const PmMicroFn *f, PmValueId v, PmSpan where, Wish wish) {
  PmLower *lw = mi->lw;
  PmSpan use = f->use[v].file >= 0 ? f->use[v] : where;
  static const char *const what[] = {"is no sum over micro-batches", "needs the rows a second time",
                                     "is carried from turn to turn of a `repeat`"};
  if (!pm_lw_error(lw, PM_E_MICRO, use, "%s %s", pm_lw_text(lw, use), what[wish])) return false;
  if (f->sum[v].file >= 0) pm_diag_label(lw->diags, f->sum[v], "goes over all rows of `batch`");
  pm_diag_label(lw->diags, lw->accumulate->span, "%lld micro-batches, one after another", (long long)lw->micro);
  if (wish == IN_LOSS) {
    pm_diag_note(lw->diags, "sums over `batch` may stand in what is minimised only linearly");
  } else {
    pm_diag_note(lw->diags, "a sum over all rows is known only after the last micro-batch has gone by");
  }
  pm_diag_help(lw->diags, "write `batch.micro` there for a sum of each micro-batch's own, or leave `accumulate` out");
  return false;
}

// What must run after, or be handed there from the micro-batches, for v to be known.
static void need(PmMicroFn *f, PmValueId v) {
  const PmNode *call = f->outer ? &f->outer->f.nodes[f->node] : NULL;
  bool late = f->part[v] == PM_PART_LATE || f->again[v];
  // A parameter of a repeat's body is what it is outside, unless the turns change it.
  if (value(f, v)->def == PM_NONE && call) late = v >= call->attr.n_carry;
  f->late[v] = late;
  f->front[v] = !late;
}

// The same for the operands of what runs after. Users come before what they use.
static void need_operands(PmMicroFn *f) {
  for (int32_t i = f->f.n_nodes - 1; i >= 0; i--) {
    const PmNode *n = &f->f.nodes[i];
    PmMicroFn *g = f->inner[i];
    bool any = false;
    for (int32_t k = 0; k < n->n_out; k++) {
      any = any || f->late[n->out + k];
      if (g && f->late[n->out + k]) need(g, g->f.results[k]);
    }
    if (g && any) need_operands(g);
    for (int32_t k = 0; any && k < n->n_in; k++) {
      bool early = k < 64 && (f->early_in[i] >> k & 1);
      if (g ? g->late[k] : !early) need(f, n->in[k]);
    }
  }
}

// Where the value is computed at the latest: a parameter of a repeat's body is looked for outside.
static PmEarly origin(PmMicroFn *f, PmValueId v) {
  PmValueId out;
  while (pm_micro_outside(f, v, &out)) {
    f = f->outer;
    v = out;
  }
  return (PmEarly){f, v};
}

static bool add_early(PmMicro *mi, PmMicroFn *f, PmValueId v) {
  PmEarly e = origin(f, v);
  if (e.f->early[e.v] == PM_NONE) {
    if (mi->n_early == PM_MICRO_MAX_EARLY) {
      return pm_lw_error(mi->lw, PM_E_LIMIT, mi->lw->accumulate->span, "more than %d sums of inputs are needed early",
                         PM_MICRO_MAX_EARLY);
    }
    mi->early = pm_grow(mi->lw->arena, mi->early, mi->n_early, &mi->cap_early, sizeof *mi->early);
    e.f->early[e.v] = mi->n_early;
    mi->early[mi->n_early++] = e;
  }
  f->early[v] = e.f->early[e.v];
  return true;
}

static void find_early(PmMicro *mi, PmMicroFn *f) {
  for (int32_t i = 0; i < f->f.n_nodes; i++) {
    for (int32_t k = 0; k < f->f.nodes[i].n_in && k < 64; k++) {
      if ((f->early_in[i] >> k & 1) && !add_early(mi, f, f->f.nodes[i].in[k])) return;
    }
    if (f->inner[i]) find_early(mi, f->inner[i]);
  }
}

static void note_uses(PmMicro *mi, PmMicroFn *f) {
  f->uses_early = PM_NEW_N(mi->lw->arena, bool, mi->n_early + 1);
  for (int32_t i = 0; i < f->f.n_nodes; i++) {
    for (int32_t k = 0; k < f->f.nodes[i].n_in && k < 64; k++) {
      if (f->early_in[i] >> k & 1) f->uses_early[f->early[f->f.nodes[i].in[k]]] = true;
    }
    if (!f->inner[i]) continue;
    note_uses(mi, f->inner[i]);
    for (int32_t e = 0; e < mi->n_early; e++) f->uses_early[e] = f->uses_early[e] || f->inner[i]->uses_early[e];
  }
}

// Names that are carried from turn to turn must be there in each.
static bool check_carried(PmMicro *mi, const PmMicroFn *f) {
  for (int32_t i = 0; i < f->f.n_nodes; i++) {
    const PmMicroFn *g = f->inner[i];
    for (int32_t k = 0; g && k < f->f.nodes[i].attr.n_carry; k++) {
      if (g->part[k] > PM_PART_SUM) return refuse(mi, g, k, pm_micro_span(mi, f, i), IN_EVERY_TURN);
    }
    if (g && !check_carried(mi, g)) return false;
  }
  return true;
}

// The loss, and reports that need nothing after.
static bool is_summed(const PmMicroFn *f, int32_t result) {
  PmValueId v = f->f.results[result];
  if (f->f.result_bind[result].var != PM_NONE || f->part[v] > PM_PART_SUM) return false;
  return result == 0 || !f->again[v];
}

static bool need_results(PmMicro *mi) {
  PmMicroFn *f = mi->model;
  // What runs after gives its reports after these: behind the first of them, all are its own.
  while (mi->n_summed < f->f.n_results && is_summed(f, mi->n_summed)) mi->n_summed++;
  for (int32_t i = 0; i < f->f.n_results; i++) {
    PmValueId v = f->f.results[i];
    PmPart most = i == 0 ? PM_PART_SUM : PM_PART_LATE;
    bool again = f->part[v] == PM_PART_NEVER;
    if ((PmPart)f->part[v] > most) return refuse(mi, f, v, mi->lw->minimize->span, again ? AFTER : IN_LOSS);
    if (i >= mi->n_summed) need(f, v);
  }
  need_operands(f);
  return true;
}

static void collect_fronts(PmMicro *mi, PmMicroFn *f) {
  int32_t cap = 0;
  for (PmValueId v = 0; v < f->f.n_values; v++) {
    if (!f->front[v]) continue;
    f->fronts = pm_grow(mi->lw->arena, f->fronts, f->n_fronts, &cap, sizeof *f->fronts);
    f->fronts[f->n_fronts++] = (PmFront){v, PM_NONE, PM_NONE, PM_NONE, PM_NONE};
  }
  for (int32_t i = 0; i < f->f.n_nodes; i++) {
    if (!f->inner[i]) continue;
    collect_fronts(mi, f->inner[i]);
    for (int32_t k = 0; k < f->inner[i]->n_fronts; k++) {
      f->fronts = pm_grow(mi->lw->arena, f->fronts, f->n_fronts, &cap, sizeof *f->fronts);
      f->fronts[f->n_fronts++] = (PmFront){PM_NONE, i, k, PM_NONE, PM_NONE};
    }
  }
}

bool pm_micro_need(PmMicro *mi) {
  int32_t errors = pm_diags_errors(mi->lw->diags);
  if (!check_carried(mi, mi->model) || !need_results(mi)) return false;
  find_early(mi, mi->model);
  if (pm_diags_errors(mi->lw->diags) > errors) return false;
  note_uses(mi, mi->model);
  collect_fronts(mi, mi->model);
  return true;
}

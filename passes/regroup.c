#include "passes/regroup.h"

#include <stdlib.h>
#include <string.h>

#include "passes/exec_choose.h"
#include "passes/rewrite.h"

typedef struct Term {
  PmValueId value;
  uint32_t sums;  // mesh axes over which it comes out partial
  int32_t order;  // place in the chain, to keep the sort stable
} Term;

// A left-deep chain of additions: node[0] adds the first two terms, each later node one more.
typedef struct Chain {
  int32_t n_nodes;
  int32_t *node;
  Term *terms;  // n_nodes + 1
} Chain;

static bool is_scalar_add(const PmFn *f, const PmNode *n) {
  return n->op == PM_OP_map && n->attr.fn == PM_S_add && f->values[n->out].type.rank == 0;
}

static uint32_t sums_of(PmArena *arena, const PmModule *m, const PmFn *f, PmValueId v) {
  int32_t def = f->values[v].def;
  if (def == PM_NONE || (pm_op_flags(f->nodes[def].op) & (PM_F_CALL | PM_F_COMM))) return 0;
  return pm_exec_choose(arena, m, f, &f->nodes[def]).sums;
}

// The chain that ends at node `last`, found from its end; false for a single addition.
static bool find_chain(PmArena *arena, const PmModule *m, const PmFn *f, const int32_t *uses, int32_t last,
                       Chain *out) {
  int32_t n = 1;
  for (int32_t at = last;; n++) {
    int32_t def = f->values[f->nodes[at].in[0]].def;
    if (def == PM_NONE || !is_scalar_add(f, &f->nodes[def]) || uses[f->nodes[def].out] != 1) break;
    at = def;
  }
  if (n < 2) return false;
  *out = (Chain){.n_nodes = n, .node = PM_NEW_N(arena, int32_t, n), .terms = PM_NEW_N(arena, Term, n + 1)};
  for (int32_t i = n - 1, at = last; i >= 0; i--) {
    out->node[i] = at;
    const PmNode *add = &f->nodes[at];
    out->terms[i + 1] = (Term){add->in[1], sums_of(arena, m, f, add->in[1]), i + 1};
    if (i == 0) out->terms[0] = (Term){add->in[0], sums_of(arena, m, f, add->in[0]), 0};
    at = f->values[add->in[0]].def;
  }
  return true;
}

static int compare_terms(const void *a, const void *b) {
  const Term *x = a, *y = b;
  int px = __builtin_popcount(x->sums), py = __builtin_popcount(y->sums);
  if (px != py) return px > py ? -1 : 1;
  if (x->sums != y->sums) return x->sums < y->sums ? -1 : 1;
  return x->order < y->order ? -1 : 1;
}

// Moves the chain's additions to the place of its last one, where every term is defined, in the sorted order.
static void rewrite(PmArena *arena, PmFn *f, Chain *c) {
  qsort(c->terms, (size_t)c->n_nodes + 1, sizeof *c->terms, compare_terms);
  PmNode *adds = PM_NEW_N(arena, PmNode, c->n_nodes);
  for (int32_t i = 0; i < c->n_nodes; i++) {
    adds[i] = f->nodes[c->node[i]];
    adds[i].in[0] = i == 0 ? c->terms[0].value : adds[i - 1].out;
    adds[i].in[1] = c->terms[i + 1].value;
  }
  int32_t last = c->node[c->n_nodes - 1], at = 0;
  for (int32_t i = 0, next = 0; i <= last; i++) {
    if (next < c->n_nodes && c->node[next] == i)
      next++;
    else
      f->nodes[at++] = f->nodes[i];
  }
  memcpy(&f->nodes[at], adds, (size_t)c->n_nodes * sizeof *adds);
  for (int32_t i = 0; i <= last; i++)
    for (int32_t k = 0; k < f->nodes[i].n_out; k++) f->values[f->nodes[i].out + k].def = i;
}

static bool differs(const Chain *c) {
  for (int32_t i = 1; i <= c->n_nodes; i++)
    if (c->terms[i].sums != c->terms[0].sums) return true;
  return false;
}

void pm_regroup_sums(PmArena *arena, PmModule *m, const PmTree *tree) {
  for (int32_t t = 0; t < tree->n_fns; t++) {
    PmFn *f = pm_fn(m, tree->fns[t].fn);
    const int32_t *uses = pm_fn_uses(arena, f);
    for (int32_t i = f->n_nodes - 1; i >= 0; i--) {
      Chain c;
      if (!is_scalar_add(f, &f->nodes[i]) || !find_chain(arena, m, f, uses, i, &c)) continue;
      if (differs(&c)) rewrite(arena, f, &c);
      i = c.node[0];
    }
  }
}

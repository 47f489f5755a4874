// dot -> matrix products. Axes are sorted into batch, m, n and k; neighbours that lie alike everywhere are merged; then
// one axis (or none) of m, n and k each is given to the library, which needs a unit stride in every operand, and the
// rest become loops. Operands that allow only a poor product are copied first, when that is cheaper.
#include <string.h>

#include "base/assert.h"
#include "codegen/region.h"

enum { A, B, C, OPERANDS };
enum { BATCH, M, N, K, CLASSES };

typedef struct Axis {
  int64_t extent;
  int64_t s[OPERANDS];
  int32_t cls;
} Axis;

typedef struct Choice {
  int32_t pick[CLASSES];  // axis given to the library, or PM_NONE; BATCH unused
  int32_t copied;         // bit set of operands
  double cost;
} Choice;

static int32_t collect(const PmCgRegion *r, const PmCgNode *n, const PmCgView *const *views, Axis *out) {
  const PmCgId ids[OPERANDS] = {n->in[0], n->in[1], n->out};
  int32_t names[3 * PM_CG_RANK], count = 0;
  for (int32_t o = 0; o < OPERANDS; o++) {
    const PmCgValue *v = &r->values[ids[o]];
    for (int32_t d = 0; d < v->rank; d++) {
      int32_t at = 0;
      while (at < count && names[at] != v->dims[d].axis) at++;
      if (at == count) {
        names[count] = v->dims[d].axis;
        out[count++] = (Axis){.extent = v->dims[d].extent};
      }
      out[at].s[o] = views[o]->stride[d];
      out[at].cls |= 1 << o;
    }
  }
  int32_t kept = 0;
  for (int32_t i = 0; i < count; i++) {
    static const int8_t cls[] = {
        [1 << A | 1 << B | 1 << C] = BATCH, [1 << A | 1 << C] = M, [1 << B | 1 << C] = N, [1 << A | 1 << B] = K};
    if (out[i].extent == 1) continue;
    PM_ASSERT(out[i].cls == 7 || out[i].cls == 5 || out[i].cls == 6 || out[i].cls == 3,
              "an axis of one operand of a dot");
    out[i].cls = cls[out[i].cls];
    out[kept++] = out[i];
  }
  return kept;
}

static bool follows(const Axis *outer, const Axis *inner) {
  if (outer->cls != inner->cls || outer->extent > INT32_MAX / inner->extent) return false;
  for (int32_t o = 0; o < OPERANDS; o++)
    if (outer->s[o] != inner->s[o] * inner->extent) return false;
  return true;
}

static int32_t merge(Axis *axes, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    for (int32_t j = 0; j < n; j++) {
      if (i == j || !follows(&axes[i], &axes[j])) continue;
      axes[i].extent *= axes[j].extent;
      memcpy(axes[i].s, axes[j].s, sizeof axes[i].s);
      memmove(&axes[j], &axes[j + 1], (size_t)(n - j - 1) * sizeof *axes);
      return merge(axes, n - 1);
    }
  }
  return n;
}

// A packed operand: batch axes, then its own axes in the order given, the last with stride 1.
static void pack(Axis *axes, int32_t n, int32_t operand, int32_t last_class) {
  const int32_t first_class = operand == A ? (last_class == K ? M : K) : operand == B ? (last_class == N ? K : N) : M;
  const int32_t order[] = {BATCH, first_class, last_class};
  int64_t s = 1;
  for (int32_t c = 2; c >= 0; c--)
    for (int32_t i = n - 1; i >= 0; i--)
      if (axes[i].cls == order[c]) {
        axes[i].s[operand] = s;
        s *= axes[i].extent;
      }
}

static bool unit(const Axis *axes, int32_t p, int32_t q, int32_t operand) {
  return p == PM_NONE || q == PM_NONE || axes[p].s[operand] == 1 || axes[q].s[operand] == 1;
}

static double products(const Axis *axes, int32_t n) {
  double all = 1;
  for (int32_t i = 0; i < n; i++) all *= (double)axes[i].extent;
  return all;
}

static double operand_elements(const Axis *axes, int32_t n, int32_t operand) {
  const int32_t absent[] = {[A] = N, [B] = M, [C] = K};
  double all = 1;
  for (int32_t i = 0; i < n; i++)
    if (axes[i].cls != absent[operand]) all *= (double)axes[i].extent;
  return all;
}

// Estimated nanoseconds: a call costs a fixed price, thin products run below the peak, copies move bytes.
static double price(const Axis *axes, int32_t n, const Choice *c) {
  double inner = 1;
  const double thin = 8;
  double rate = 0.02;
  for (int32_t i = M; i < CLASSES; i++) {
    const double e = c->pick[i] == PM_NONE ? 1 : (double)axes[c->pick[i]].extent;
    inner *= e;
    rate *= 1 + thin / (e * 8);
  }
  const double all = products(axes, n);
  double cost = all / inner * 150 + all * rate;
  for (int32_t o = 0; o < OPERANDS; o++)
    if (c->copied >> o & 1) cost += 1000 + 1.5 * operand_elements(axes, n, o);
  return cost;
}

static bool choose(const Axis *axes, int32_t n, int32_t copied, Choice *best) {
  bool found = false;
  for (int32_t m = PM_NONE; m < n; m++) {
    for (int32_t x = PM_NONE; x < n; x++) {
      for (int32_t k = PM_NONE; k < n; k++) {
        if ((m >= 0 && axes[m].cls != M) || (x >= 0 && axes[x].cls != N) || (k >= 0 && axes[k].cls != K)) continue;
        if (!unit(axes, m, k, A) || !unit(axes, k, x, B) || !unit(axes, m, x, C)) continue;
        Choice c = {.pick = {[M] = m, [N] = x, [K] = k}, .copied = copied};
        c.cost = price(axes, n, &c);
        if (best->cost < 0 || c.cost < best->cost) *best = c;
        found = true;
      }
    }
  }
  return found;
}

static PmCgRef copy_operand(PmCg *cg, PmCgRegion *r, const Axis *lie, const Axis *packed, int32_t n, int32_t operand,
                            PmCgRef ref, PmKDtype dtype, int32_t loc) {
  const int32_t absent[] = {[A] = N, [B] = M, [C] = K};
  int64_t extent[3 * PM_CG_RANK], from[3 * PM_CG_RANK], to[3 * PM_CG_RANK], elements = 1;
  int32_t rank = 0;
  for (int32_t i = 0; i < n; i++) {
    if (lie[i].cls == absent[operand]) continue;
    extent[rank] = lie[i].extent;
    from[rank] = lie[i].s[operand];
    to[rank++] = packed[i].s[operand];
    elements *= lie[i].extent;
  }
  for (int32_t i = 0; i < rank; i++)  // the lanes of the copy go along the packed axis
    for (int32_t j = i + 1; j < rank; j++)
      if (to[j] > to[i]) {
        const int64_t swap[] = {extent[i], from[i], to[i]};
        extent[i] = extent[j], from[i] = from[j], to[i] = to[j];
        extent[j] = swap[0], from[j] = swap[1], to[j] = swap[2];
      }
  const int32_t buf = pm_cg_buf(cg, r, dtype, elements, PM_OWN_SCRATCH, "packed");
  const PmCgRef own = {buf, 0, elements * pm_kdtype_bytes(dtype)};
  if (operand == C) return own;
  pm_cg_emit_copy(cg, r, dtype, extent, rank, ref, from, own, to, "pack", loc);
  return own;
}

static void unpack_result(PmCg *cg, PmCgRegion *r, const Axis *lie, const Axis *packed, int32_t n, PmCgRef from_ref,
                          PmCgRef ref, PmKDtype dtype, int32_t loc) {
  int64_t extent[3 * PM_CG_RANK], from[3 * PM_CG_RANK], to[3 * PM_CG_RANK];
  int32_t rank = 0;
  for (int32_t i = 0; i < n; i++) {
    if (lie[i].cls == K) continue;
    extent[rank] = lie[i].extent;
    from[rank] = packed[i].s[C];
    to[rank++] = lie[i].s[C];
  }
  pm_cg_emit_copy(cg, r, dtype, extent, rank, from_ref, from, ref, to, "unpack", loc);
}

// Strides of a matrix whose axis p (or q) may be missing: what is missing counts as extent 1.
static void strides(const Axis *axes, int32_t p, int32_t q, int32_t operand, int64_t *out_p, int64_t *out_q) {
  const int64_t ep = p == PM_NONE ? 1 : axes[p].extent, eq = q == PM_NONE ? 1 : axes[q].extent;
  *out_p = p == PM_NONE ? 1 : axes[p].s[operand];
  *out_q = q == PM_NONE ? 1 : axes[q].s[operand];
  if (p == PM_NONE && *out_q == 1) *out_p = eq;
  if (q == PM_NONE && *out_p == 1 && p != PM_NONE) *out_q = ep;
}

static void fill(const Axis *axes, int32_t n, const Choice *c, PmDot *d) {
  const int32_t m = c->pick[M], x = c->pick[N], k = c->pick[K];
  d->m = m == PM_NONE ? 1 : axes[m].extent;
  d->n = x == PM_NONE ? 1 : axes[x].extent;
  d->k = k == PM_NONE ? 1 : axes[k].extent;
  strides(axes, m, k, A, &d->a_m, &d->a_k);
  strides(axes, k, x, B, &d->b_k, &d->b_n);
  strides(axes, m, x, C, &d->c_m, &d->c_n);
  for (int32_t sum = 0; sum < 2; sum++) {
    for (int32_t i = 0; i < n; i++) {
      if (i == m || i == x || i == k || (axes[i].cls == K) != (sum == 1)) continue;
      PM_ASSERT(d->n_loops < PM_DOT_MAX_LOOPS, "a dot of too many loops");
      d->loops[d->n_loops++] = (PmDotLoop){
          .extent = axes[i].extent, .a = axes[i].s[A], .b = axes[i].s[B], .c = axes[i].s[C], .sum = sum == 1};
    }
  }
}

// Elements from the first to the last that the dot touches, and so bytes of the range.
static int64_t reach(const Axis *axes, int32_t n, int32_t operand, PmKDtype dtype) {
  const int32_t absent[] = {[A] = N, [B] = M, [C] = K};
  int64_t last = 0;
  for (int32_t i = 0; i < n; i++)
    if (axes[i].cls != absent[operand]) last += axes[i].s[operand] * (axes[i].extent - 1);
  return (last + 1) * pm_kdtype_bytes(dtype);
}

void pm_cg_emit_dot(PmCg *cg, PmCgRegion *r, int32_t item) {
  const PmCgNode *node = &r->nodes[r->items[item].node];
  const PmCgId ids[OPERANDS] = {node->in[0], node->in[1], node->out};
  const PmKDtype dtype = (PmKDtype)r->values[node->out].dtype;
  PmCgView stored[OPERANDS];
  const PmCgView *views[OPERANDS];
  for (int32_t o = 0; o < OPERANDS; o++) {
    stored[o] = *pm_cg_view(cg, r, ids[o]);
    views[o] = &stored[o];
    PM_ASSERT(views[o]->buf != PM_NONE, "an operand of a dot that is not in memory");
  }
  Axis lie[3 * PM_CG_RANK], axes[3 * PM_CG_RANK], use[3 * PM_CG_RANK];
  const int32_t n_lie = collect(r, node, views, lie);
  Choice best = {.cost = -1};
  int32_t best_last[2] = {K, N}, n = 0;
  for (int32_t copied = 0; copied < 1 << OPERANDS; copied++) {
    for (int32_t last = 0; last < 4; last++) {  // which class of a packed A and B gets stride 1
      const int32_t la = last & 1 ? M : K, lb = last & 2 ? K : N;
      if ((!(copied >> A & 1) && la == M) || (!(copied >> B & 1) && lb == K)) continue;
      memcpy(axes, lie, sizeof lie);
      if (copied >> A & 1) pack(axes, n_lie, A, la);
      if (copied >> B & 1) pack(axes, n_lie, B, lb);
      if (copied >> C & 1) pack(axes, n_lie, C, N);
      const double before = best.cost;
      const int32_t merged = merge(axes, n_lie);
      choose(axes, merged, copied, &best);
      if (best.cost == before) continue;
      memcpy(use, axes, sizeof axes);
      n = merged;
      best_last[0] = la;
      best_last[1] = lb;
    }
  }
  PM_ASSERT(best.cost >= 0, "a dot that no copy makes regular");
  memcpy(axes, lie, sizeof lie);
  PmCgRef refs[OPERANDS];
  for (int32_t o = 0; o < OPERANDS; o++) {
    refs[o] = (PmCgRef){views[o]->buf, views[o]->offset * pm_kdtype_bytes(dtype), reach(lie, n_lie, o, dtype)};
    if (!(best.copied >> o & 1)) continue;
    pack(axes, n_lie, o, o == A ? best_last[0] : o == B ? best_last[1] : N);
    refs[o] = copy_operand(cg, r, lie, axes, n_lie, o, refs[o], dtype, node->loc);
  }
  PmDot *d = PM_NEW(cg->out_arena, PmDot);
  d->dtype = (uint8_t)dtype;
  fill(use, n, &best, d);
  PmCgStep *s = pm_cg_step(cg, r, PM_CG_STEP_DOT, OPERANDS);
  s->dot = d;
  s->loc = node->loc;
  s->op = pm_cg_dot_text(cg, node);
  s->flops = 2 * products(use, n);
  memcpy(s->refs, refs, sizeof refs);
  s->writes[C] = true;
  for (int32_t o = 0; o < OPERANDS; o++) s->bytes += (double)refs[o].bytes;
  if (best.copied >> C & 1) {
    const PmCgRef to = {views[C]->buf, views[C]->offset * pm_kdtype_bytes(dtype), reach(lie, n_lie, C, dtype)};
    unpack_result(cg, r, lie, axes, n_lie, refs[C], to, dtype, node->loc);
  }
}

#include <string.h>

#include "codegen/cpu/llvm_emit.h"

static void find_loops(PmLlvmShape *s, const PmKernel *k) {
  int32_t open[PM_KERNEL_MAX_AXES], depth = 0;
  for (int32_t i = 0; i < k->n_instrs; i++) {
    if (k->instrs[i].op == PM_I_LOOP) {
      if (depth > 0) s->innermost[open[depth - 1]] = false;
      s->innermost[i] = true;
      open[depth++] = i;
    } else if (k->instrs[i].op == PM_I_END) {
      s->end[open[--depth]] = i;
    }
  }
}

static bool operands_vary(const PmLlvmShape *s, const PmInstr *in) {
  return (in->a >= 0 && s->varies[in->a]) || (in->b >= 0 && s->varies[in->b]) || (in->c >= 0 && s->varies[in->c]);
}

// Sets `varies` of [first, last) when the turns of `axis` are spread over lanes. An accumulator of the lane loop itself
// is one number behind it; of a loop inside of the lanes, one number a lane.
static void find_varying(PmLlvmShape *s, const PmKernel *k, int32_t first, int32_t last, int32_t axis, bool reduces) {
  for (int32_t i = first; i < last; i++) {
    const PmInstr *in = &k->instrs[i];
    if (in->op == PM_I_LOAD)
      s->varies[i] = in->stride[axis] != 0 || (in->dyn >= 0 && s->varies[in->dyn]);
    else if (in->op == PM_I_INDEX)
      s->varies[i] = in->arg == axis;
    else if (pm_is_acc(in->op))
      s->varies[i] = !reduces && s->varies[in->a];
    else if (!pm_is_access(in->op))
      s->varies[i] = operands_vary(s, in);
  }
}

static bool same_place(const PmInstr *a, const PmInstr *b) {
  return a->dtype == b->dtype && a->base == b->base && memcmp(a->stride, b->stride, sizeof a->stride) == 0 &&
         a->dyn == b->dyn && (a->dyn < 0 || (a->dyn_stride == b->dyn_stride && a->dyn_extent == b->dyn_extent));
}

// Turns of a loop run in order. Strips keep that order for each store alone; between a store and another access of the
// same bytes it is kept only when both touch one element a turn, and another one each turn.
static bool order_survives(const PmLlvmShape *s, const PmKernel *k, const PmLlvmAlias *alias, int32_t loop) {
  const int32_t axis = k->instrs[loop].arg;
  for (int32_t i = loop + 1; i < s->end[loop]; i++) {
    const PmInstr *store = &k->instrs[i];
    if (store->op != PM_I_STORE && store->op != PM_I_STORE_ADD) continue;
    const int8_t class = alias->class_of[store->arg];
    for (int32_t j = loop + 1; j < s->end[loop]; j++) {
      const PmInstr *other = &k->instrs[j];
      if (j == i || !pm_is_access(other->op) || alias->class_of[other->arg] != class) continue;
      if (other->arg != store->arg && !alias->same_start[class]) return false;
      if (!same_place(store, other) || store->stride[axis] == 0 || (store->dyn >= 0 && s->varies[store->dyn]))
        return false;
    }
  }
  return true;
}

void pm_llvm_shape(PmLlvmShape *out, PmArena *arena, const PmKernel *k, const PmLlvmAlias *alias) {
  const int32_t n = k->n_instrs + 1;
  *out = (PmLlvmShape){.lane_outer = -1,
                       .end = PM_NEW_N(arena, int32_t, n),
                       .innermost = PM_NEW_N(arena, bool, n),
                       .strips = PM_NEW_N(arena, bool, n),
                       .varies = PM_NEW_N(arena, bool, n)};
  find_loops(out, k);
  if (k->vec == PM_VEC_OUTER) {
    const int32_t last = k->n_outer - 1;
    if (last < 0 || k->outer_kind[last] != PM_KA_GRID || k->outer[last] == 1) return;
    out->lane_outer = last;
    find_varying(out, k, 0, k->n_instrs, last, false);
    return;
  }
  for (int32_t i = 0; i < k->n_instrs; i++) {
    if (k->instrs[i].op != PM_I_LOOP || !out->innermost[i] || k->instrs[i].extent == 1) continue;
    find_varying(out, k, i + 1, out->end[i], k->instrs[i].arg, true);
    out->strips[i] = order_survives(out, k, alias, i);
    if (!out->strips[i]) memset(out->varies + i, 0, (size_t)(out->end[i] - i) * sizeof *out->varies);
  }
}

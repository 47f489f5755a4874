#include "frontend/lower.h"

PmScope *pm_scope_new(PmLower *lw, PmScope *parent, PmScopeKind kind, PmUnit *unit, const char *path) {
  PmScope *s = PM_NEW(lw->arena, PmScope);
  s->parent = parent;
  s->kind = kind;
  s->unit = unit;
  s->path = path;
  return s;
}

// Interned names compare by address; the address only picks a slot and never an order.
static int32_t slot_of(const PmScope *s, const char *name) {
  uint64_t h = (uint64_t)(uintptr_t)name * UINT64_C(0x9e3779b97f4a7c15);
  int32_t mask = s->n_slots - 1;
  int32_t i = (int32_t)(h >> 40) & mask;
  while (s->slots[i] && s->syms[s->slots[i] - 1].name != name) i = (i + 1) & mask;
  return i;
}

PmSym *pm_scope_find_here(PmScope *s, const char *name) {
  if (!s->n_slots) return NULL;
  int32_t at = s->slots[slot_of(s, name)];
  return at ? &s->syms[at - 1] : NULL;
}

PmSym *pm_scope_find(PmScope *s, const char *name) {
  for (; s; s = s->parent) {
    PmSym *sym = pm_scope_find_here(s, name);
    if (sym) return sym;
  }
  return NULL;
}

PmSym *pm_scope_put(PmLower *lw, PmScope *s, PmSym sym) {
  PmSym *old = pm_scope_find_here(s, sym.name);
  if (old) {
    *old = sym;
    return old;
  }
  s->syms = pm_grow(lw->arena, s->syms, s->n, &s->cap, sizeof *s->syms);
  s->syms[s->n++] = sym;
  if (s->n * 2 > s->n_slots) {
    s->n_slots = s->n_slots ? s->n_slots * 2 : 16;
    s->slots = PM_NEW_N(lw->arena, int32_t, s->n_slots);
    for (int32_t i = 0; i < s->n - 1; i++) s->slots[slot_of(s, s->syms[i].name)] = i + 1;
  }
  s->slots[slot_of(s, sym.name)] = s->n;
  return &s->syms[s->n - 1];
}

static const char *what(const PmSym *sym) {
  if (sym->kind == PM_SYM_AXIS) return "an axis";
  if (sym->kind == PM_SYM_SUB) return "a block";
  if (sym->kind == PM_SYM_ITEM) return "a function or block";
  return sym->fixed ? "a parameter, input or constant" : "a value";
}

PmSym *pm_scope_add(PmLower *lw, PmScope *s, PmSym sym) {
  PmSym *old = pm_scope_find(s, sym.name);
  if (!old) return pm_scope_put(lw, s, sym);
  if (old->kind == PM_SYM_ERROR) return pm_scope_put(lw, s, sym);
  if (pm_lw_error(lw, PM_E_REDEFINED, sym.span, "`%s` is already the name of %s", sym.name, what(old))) {
    if (old->span.file >= 0) pm_diag_label(lw->diags, old->span, "declared here");
    pm_diag_help(lw->diags, "choose another name: axes, values and blocks share one namespace");
  }
  return NULL;
}

int32_t pm_scope_names(PmLower *lw, PmScope *s, int kind, const char ***out) {
  int32_t n = 0, cap = 0;
  const char **names = NULL;
  for (; s; s = s->parent) {
    for (int32_t i = 0; i < s->n; i++) {
      if (kind >= 0 && (int)s->syms[i].kind != kind) continue;
      names = pm_grow(lw->arena, names, n, &cap, sizeof *names);
      names[n++] = s->syms[i].name;
    }
  }
  *out = names;
  return n;
}

PmSym *pm_lw_callable(PmLower *lw, const char *name) { return pm_scope_find_here(&lw->scope->unit->callables, name); }

PmSym pm_sym_value(const char *name, PmVal val, PmSpan span) {
  PmSymKind kind = val.kind == PM_V_ERROR ? PM_SYM_ERROR : PM_SYM_VALUE;
  return (PmSym){.name = name, .kind = kind, .span = span, .axis = PM_NONE, .val = val, .var = PM_NONE};
}

PmSym pm_sym_axis(const char *name, PmAxisId axis, PmSpan span) {
  PmSymKind kind = axis == PM_NONE ? PM_SYM_ERROR : PM_SYM_AXIS;
  return (PmSym){.name = name, .kind = kind, .span = span, .axis = axis, .var = PM_NONE};
}

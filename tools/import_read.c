#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/diag.h"
#include "tools/import.h"

// All problems are found before the reader gives up: one line each.
typedef struct Reading {
  PmArena *arena;
  const PmSources *sources;
  int32_t file;
  const PmJsonValue *root;
  const PmImportFamily *family;
  PmImportVars *vars;
  PmBuf problems;
  int32_t n_problems;
} Reading;

#define MAX_PROBLEMS 20

static void problem(Reading *r, int32_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void problem(Reading *r, int32_t at, const char *fmt, ...) {
  if (++r->n_problems > MAX_PROBLEMS) return;
  pm_buf_puts(&r->problems, "\n  ");
  pm_sources_put_loc(r->sources, (PmSpan){r->file, at, at}, &r->problems);
  pm_buf_puts(&r->problems, ": ");
  va_list ap;
  va_start(ap, fmt);
  pm_buf_vprintf(&r->problems, fmt, ap);
  va_end(ap);
}

const PmImportVar *pm_import_var(const PmImportVars *vars, const char *name) {
  for (int32_t i = 0; i < vars->n; i++) {
    if (strcmp(vars->items[i].name, name) == 0) return vars->items[i].text ? &vars->items[i] : NULL;
  }
  return NULL;
}

void pm_import_set(PmImportVars *vars, PmImportVar var) {
  int32_t i = 0;
  while (i < vars->n && strcmp(vars->items[i].name, var.name) != 0) i++;
  if (i == PM_IMPORT_MAX_VARS) return;
  if (i == vars->n) vars->n++;
  vars->items[i] = var;
}

static int64_t count_of(const Reading *r, const char *name) {
  const PmImportVar *v = pm_import_var(r->vars, name);
  return v ? v->count : 0;
}

static void set_count(Reading *r, const char *name, const char *key, int64_t count) {
  const char *text = pm_arena_printf(r->arena, "%" PRId64, count);
  pm_import_set(r->vars, (PmImportVar){.name = name, .text = text, .key = key, .count = count});
}

static void set_text(Reading *r, const char *name, const char *key, const char *text) {
  pm_import_set(r->vars, (PmImportVar){.name = name, .text = text, .key = key});
}

// A number as pmodel writes one that is no integer.
static const char *real_text(PmArena *arena, double v) {
  PmBuf text;
  pm_buf_init(&text);
  pm_buf_put_f64(&text, v);
  if (!strpbrk(pm_buf_str(&text), ".e")) pm_buf_puts(&text, ".0");
  const char *out = pm_arena_strdup(arena, pm_buf_str(&text));
  pm_buf_deinit(&text);
  return out;
}

static bool is_number(const PmJsonValue *v) { return v->kind == PM_JSON_INT || v->kind == PM_JSON_REAL; }

static bool equal(const PmJsonValue *a, const PmJsonValue *b) {
  if (is_number(a) && is_number(b)) return !(a->real < b->real) && !(a->real > b->real);
  if (a->kind != b->kind) return false;
  return a->kind == PM_JSON_STR ? strcmp(a->str, b->str) == 0 : a->kind == PM_JSON_BOOL && a->flag == b->flag;
}

static bool is_nothing(const PmJsonValue *v) {
  return v->kind == PM_JSON_NULL || (v->kind == PM_JSON_BOOL && !v->flag) ||
         ((v->kind == PM_JSON_ARRAY || v->kind == PM_JSON_OBJECT) && !v->first);
}

static void read_count(Reading *r, const PmImportKey *k, const PmJsonValue *v) {
  int64_t least = k->kind == PM_IMPORT_COUNT0 ? 0 : 1;
  if (v->kind != PM_JSON_INT) {
    problem(r, v->lo, "`%s` must be an integer, not %s%s", k->key, pm_json_kind_name(v->kind),
            v->kind == PM_JSON_REAL ? " with a fraction, an exponent, or more than 63 bits" : "");
  } else if (v->integer < least || v->integer > PM_MAX_AXIS_SIZE) {
    problem(r, v->lo, "`%s` is %" PRId64 ": it must be from %" PRId64 " to %" PRId64, k->key, v->integer, least,
            (int64_t)PM_MAX_AXIS_SIZE);
  } else if (v->integer > 0) {
    set_count(r, k->var, k->key, v->integer);
  }
}

static void read_real(Reading *r, const PmImportKey *k, const PmJsonValue *v) {
  bool zero_ok = k->kind == PM_IMPORT_REAL0;
  if (!is_number(v)) {
    problem(r, v->lo, "`%s` must be a number, not %s", k->key, pm_json_kind_name(v->kind));
  } else if (v->real < 0 || (!(v->real > 0) && !zero_ok)) {
    problem(r, v->lo, "`%s` must be %s", k->key, zero_ok ? "0 or more" : "more than 0");
  } else if (v->real > 0) {
    set_text(r, k->var, k->key, real_text(r->arena, v->real));
  }
}

static void read_activation(Reading *r, const PmImportKey *k, const PmJsonValue *v) {
  static const char *const names[] = {"gelu", "gelu_fast", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish"};
  static const char *const ours[] = {"gelu_erf", "gelu", "gelu", "gelu", "relu", "silu", "silu"};
  enum { N = sizeof names / sizeof *names };
  if (v->kind != PM_JSON_STR) {
    problem(r, v->lo, "`%s` must be a string, not %s", k->key, pm_json_kind_name(v->kind));
    return;
  }
  for (int32_t i = 0; i < N; i++) {
    if (strcmp(names[i], v->str) != 0) continue;
    set_text(r, k->var, k->key, ours[i]);
    if (i == 0) set_text(r, "gelu_erf", k->key, "true");
    return;
  }
  const char *near = pm_did_you_mean(v->str, names, N);
  problem(r, v->lo, "`%s` names an activation that the importer has no function for%s%s", k->key,
          near ? ": did you mean " : "; it knows gelu, gelu_fast, gelu_new, gelu_pytorch_tanh, relu, silu, swish",
          near ? near : "");
}

static bool is_plain(const char *key) {
  size_t n = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  return n > 0 && n <= 40 && !key[n];
}

// A number of `rope_scaling`, into a variable; 0 after a problem.
static double read_scaling(Reading *r, const PmJsonValue *scaling, const char *key, const char *var) {
  const PmJsonValue *v = pm_json_get(scaling, key);
  if (!v || !is_number(v) || !(v->real > 0)) {
    problem(r, v ? v->lo : scaling->lo, "`%s` of `rope_scaling` must be a number above 0", key);
    return 0;
  }
  set_text(r, var, key, real_text(r->arena, v->real));
  return v->real;
}

// Older files say `type`, newer ones `rope_type`; where both stand, the newer counts.
static void read_rope(Reading *r, const PmImportKey *k, const PmJsonValue *v) {
  set_text(r, k->var, NULL, "rope");
  if (!v || is_nothing(v)) return;
  const PmJsonValue *type = v->kind == PM_JSON_OBJECT ? pm_json_get(v, "rope_type") : NULL;
  if (!type && v->kind == PM_JSON_OBJECT) type = pm_json_get(v, "type");
  if (!type || type->kind != PM_JSON_STR) {
    problem(r, type ? type->lo : v->lo, "`%s` is an object whose `rope_type` names a way of scaling", k->key);
    return;
  }
  const char *name = type->str;
  if (strcmp(name, "default") == 0) return;
  bool linear = strcmp(name, "linear") == 0, llama3 = strcmp(name, "llama3") == 0;
  if (!linear && !llama3) {
    problem(r, type->lo,
            "`%s`%s%s%s cannot be imported: the importer knows default, linear and llama3; without the key the model "
            "has the same parameters, and positions are not scaled",
            k->key, is_plain(name) ? " of type \"" : "", is_plain(name) ? name : "", is_plain(name) ? "\"" : "");
    return;
  }
  read_scaling(r, v, "factor", "factor");
  if (llama3) {
    double low = read_scaling(r, v, "low_freq_factor", "low"), high = read_scaling(r, v, "high_freq_factor", "high");
    read_scaling(r, v, "original_max_position_embeddings", "context");
    if (low > 0 && high > 0 && !(high > low)) {
      problem(r, v->lo, "`high_freq_factor` of `%s` must be above `low_freq_factor`", k->key);
    }
  }
  set_text(r, linear ? "linear" : "llama3", k->key, "true");
  set_text(r, "scaled_rope", k->key, linear ? "linear" : "llama3");
  set_text(r, k->var, k->key, "scaled_rope");
}

// The default of a key goes the same way as a value of the file.
static const PmJsonValue *fallback_of(Reading *r, const PmImportKey *k) {
  const PmJsonValue *v = NULL;
  PmJsonError error;
  if (!k->fallback || !k->fallback[0]) return NULL;
  return pm_json_read(r->arena, k->fallback, strlen(k->fallback), false, &v, &error) ? v : NULL;
}

static void read_key(Reading *r, const PmImportKey *k) {
  const PmJsonValue *v = pm_json_get(r->root, k->key);
  if (k->kind == PM_IMPORT_ABSENT) {
    if (v && !is_nothing(v)) problem(r, v->lo, "`%s` cannot be imported: %s", k->key, k->why);
    return;
  }
  if (k->kind == PM_IMPORT_ROPE) {
    read_rope(r, k, v);
    return;
  }
  const PmJsonValue *fallback = fallback_of(r, k);
  if (v && v->kind == PM_JSON_NULL) v = NULL;
  if (!v && !k->fallback) {
    problem(r, r->root->lo, "the key `%s` is missing, which a %s configuration needs", k->key, r->family->model_type);
  }
  if (k->kind == PM_IMPORT_EQUALS) {
    if (v && fallback && !equal(v, fallback)) {
      problem(r, v->lo, "`%s` other than %s cannot be imported: %s", k->key, k->fallback, k->why);
    }
    return;
  }
  if (!v) v = fallback;
  if (!v) return;
  switch (k->kind) {
    case PM_IMPORT_COUNT:
    case PM_IMPORT_COUNT0:
      read_count(r, k, v);
      break;
    case PM_IMPORT_REAL:
    case PM_IMPORT_REAL0:
      read_real(r, k, v);
      break;
    case PM_IMPORT_ACT:
      read_activation(r, k, v);
      break;
    default:
      if (v->kind != PM_JSON_BOOL) {
        problem(r, v->lo, "`%s` must be true or false, not %s", k->key, pm_json_kind_name(v->kind));
      } else if (v->flag) {
        set_text(r, k->var, k->key, "true");
      }
  }
}

static int32_t at_key(const Reading *r, const char *key) {
  const PmJsonValue *v = key ? pm_json_get(r->root, key) : NULL;
  return v ? v->lo : r->root->lo;
}

static void check_divides(Reading *r, const char *whole, const char *part) {
  const PmImportVar *a = pm_import_var(r->vars, whole), *b = pm_import_var(r->vars, part);
  if (!a || !b || a->count % b->count == 0) return;
  problem(r, at_key(r, b->key), "`%s` is %" PRId64 ": it must divide `%s`, which is %" PRId64, b->key, b->count, a->key,
          a->count);
}

static void check_less(Reading *r, const char *small, const char *large, bool equal_ok) {
  const PmImportVar *a = pm_import_var(r->vars, small), *b = pm_import_var(r->vars, large);
  if (!a || !b || a->count < b->count || (equal_ok && a->count == b->count)) return;
  problem(r, at_key(r, a->key), "`%s` is %" PRId64 ": it must be %s `%s`, which is %" PRId64, a->key, a->count,
          equal_ok ? "at most" : "less than", b->key, b->count);
}

// Variables that follow from several keys.
static void derive(Reading *r) {
  int64_t heads = count_of(r, "heads");
  bool own_norm = strcmp(pm_import_var(r->vars, "eps")->text, "1e-05") != 0;
  bool moe = pm_import_var(r->vars, "moe"), gpt = !pm_import_var(r->vars, "theta");
  set_text(r, "norm", NULL, own_norm ? "norm" : gpt ? "layernorm" : "rmsnorm");
  if (own_norm) set_text(r, "own_norm", NULL, "true");
  if (gpt) return;
  set_count(r, "group", NULL, heads / count_of(r, "kvheads"));
  if (pm_import_var(r->vars, "biases")) {
    set_text(r, "qkv_bias", NULL, "true");
    set_text(r, "o_bias", NULL, "true");
  }
  if (moe && !pm_import_var(r->vars, "expertff")) set_count(r, "expertff", "intermediate_size", count_of(r, "ff"));
  if (moe && !pm_import_var(r->vars, "dense")) set_text(r, "ff", NULL, NULL);
  if (!pm_import_var(r->vars, "aux")) set_text(r, "seq_aux", NULL, NULL);
  const PmImportVar *scaled = pm_import_var(r->vars, "scaled");
  if (scaled && strcmp(scaled->text, "1.0") == 0) set_text(r, "scaled", NULL, NULL);
  if (pm_import_var(r->vars, "dense")) set_count(r, "layer", NULL, count_of(r, "layer") - count_of(r, "dense"));
}

static void check_together(Reading *r) {
  if (!pm_import_var(r->vars, "kvheads")) set_count(r, "kvheads", "num_attention_heads", count_of(r, "heads"));
  const PmImportVar *turn = pm_import_var(r->vars, "turn");
  if (!turn && !pm_import_var(r->vars, "head_dim")) check_divides(r, "embed", "heads");
  check_divides(r, "heads", "kvheads");
  check_less(r, "choice", "expert", true);
  check_less(r, "dense", "layer", false);
  const PmImportVar *dim = turn ? turn : pm_import_var(r->vars, "head_dim");
  int64_t hdim = dim ? dim->count : count_of(r, "embed") / count_of(r, "heads");
  if (hdim % 2 != 0 && pm_import_var(r->vars, "theta")) {
    problem(r, at_key(r, dim ? dim->key : "hidden_size"),
            "`rope` turns pairs: the size of a head, %" PRId64 ", must be even", hdim);
  }
}

static bool reads_key(const PmImportFamily *f, const char *key) {
  for (int32_t s = 0; s < PM_IMPORT_MAX_SETS && f->sets[s]; s++) {
    for (const PmImportKey *k = f->sets[s]; k->key; k++) {
      if (strcmp(k->key, key) == 0) return true;
    }
  }
  return strcmp(key, "model_type") == 0;
}

// The keys that nothing asked for, as lines of a comment.
static void list_unread(Reading *r) {
  PmBuf list;
  pm_buf_init(&list);
  size_t col = sizeof "# without influence on this text: ";
  int32_t n = 0, more = 0;
  for (const PmJsonValue *v = r->root->first; v; v = v->next) {
    if (reads_key(r->family, v->key)) continue;
    if (!is_plain(v->key) || n == 60) {
      more++;
      continue;
    }
    size_t len = strlen(v->key) + 2;
    bool wrap = n > 0 && col + len > 118;
    if (n++) pm_buf_puts(&list, wrap ? ",\n#   " : ", ");
    col = wrap ? 5 + len : col + len;
    pm_buf_puts(&list, v->key);
  }
  if (more) pm_buf_printf(&list, "%s%" PRId32 " more", n ? ", and " : "", more);
  if (n || more) set_text(r, "unread", NULL, pm_arena_strdup(r->arena, pm_buf_str(&list)));
  pm_buf_deinit(&list);
}

// The family that `model_type` names, or NULL with a problem.
static const PmImportFamily *find_family(Reading *r) {
  int32_t n;
  const PmImportFamily *all = pm_import_families(&n);
  const PmJsonValue *v = pm_json_get(r->root, "model_type");
  const char *names[32];
  PmBuf list;
  pm_buf_init(&list);
  for (int32_t i = 0; i < n && i < 32; i++) {
    names[i] = all[i].model_type;
    pm_buf_printf(&list, "%s%s", i ? ", " : "", names[i]);
  }
  const PmImportFamily *found = NULL;
  if (!v) {
    problem(r, r->root->lo, "the key `model_type` is missing: one of %s", pm_buf_str(&list));
  } else if (v->kind != PM_JSON_STR) {
    problem(r, v->lo, "`model_type` must be a string, not %s", pm_json_kind_name(v->kind));
  } else {
    for (int32_t i = 0; i < n && !found; i++) {
      if (strcmp(all[i].model_type, v->str) == 0) found = &all[i];
    }
    const char *near = found ? NULL : pm_did_you_mean(v->str, names, n < 32 ? n : 32);
    if (!found) {
      problem(r, v->lo, "the importer does not know this `model_type`%s%s; it knows %s", near ? ": did you mean " : "",
              near ? near : "", pm_buf_str(&list));
    }
  }
  pm_buf_deinit(&list);
  return found;
}

static void set_given(Reading *r) {
  for (const char *at = r->family->given; *at;) {
    size_t n = strcspn(at, " ");
    set_text(r, pm_arena_strndup(r->arena, at, n), NULL, "true");
    at += n + (at[n] == ' ');
  }
  set_text(r, "label", NULL, r->family->label);
  set_text(r, "name", NULL, r->family->model_type);
}

static void read_family(Reading *r) {
  set_given(r);
  for (int32_t s = 0; s < PM_IMPORT_MAX_SETS && r->family->sets[s]; s++) {
    for (const PmImportKey *k = r->family->sets[s]; k->key; k++) read_key(r, k);
  }
  if (r->n_problems == 0) check_together(r);
  if (r->n_problems > 0) return;
  derive(r);
  list_unread(r);
}

PmStatus *pm_import_read(PmArena *arena, const PmSources *sources, int32_t file, const PmImportFamily **out_family,
                         PmImportVars *out_vars) {
  const PmSourceFile *f = &sources->files[file];
  Reading r = {.arena = arena, .sources = sources, .file = file, .vars = out_vars};
  *out_vars = (PmImportVars){.n = 0};
  pm_buf_init(&r.problems);
  PmJsonError error;
  if (!pm_json_read(arena, f->text, (size_t)f->len, false, &r.root, &error)) {
    problem(&r, error.at, "this is not JSON: %s", error.message);
  } else if (r.root->kind != PM_JSON_OBJECT) {
    problem(&r, r.root->lo, "a configuration is an object, not %s", pm_json_kind_name(r.root->kind));
  } else {
    r.family = find_family(&r);
    if (r.family) read_family(&r);
  }
  PmStatus *st = NULL;
  if (r.n_problems > 0) {
    if (r.n_problems > MAX_PROBLEMS) pm_buf_printf(&r.problems, "\n  and %d more", r.n_problems - MAX_PROBLEMS);
    st = PM_STATUS(PM_ERR_INPUT, "`%s` cannot be imported:%s", f->path, pm_buf_str(&r.problems));
  }
  pm_buf_deinit(&r.problems);
  *out_family = r.family;
  return st;
}

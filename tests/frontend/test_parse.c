#include "harness.h"

#include <string.h>

#include "frontend/ast.h"

typedef struct Parsed {
  PmArena arena;
  PmInterner names;
  PmSources sources;
  PmDiags *diags;
  PmText text;
  bool ok;
} Parsed;

static void parse_form(Parsed *p, const char *text, PmTextForm form) {
  memset(p, 0, sizeof *p);
  pm_arena_init(&p->arena, 0);
  pm_interner_init(&p->names, &p->arena);
  pm_sources_init(&p->sources, &p->arena);
  p->diags = pm_diags_new(&p->arena, &p->sources);
  int32_t file = pm_sources_add(&p->sources, "t", text, strlen(text));
  p->ok = pm_parse(&p->arena, &p->names, &p->sources, p->diags, file, form, &p->text);
}

static void parse(Parsed *p, const char *text) { parse_form(p, text, PM_TEXT_FILE); }
static void done(Parsed *p) { pm_arena_deinit(&p->arena); }

static void line_ends_end_statements(void **state) {
  (void)state;
  Parsed p;
  parse(&p,
        "model m {\n"
        "  x = a +\n    b\n"        // no end after an operator
        "  y = f(a,\n    b\n  )\n"  // none inside parentheses
        "  z = w[a = b]  # a comment\n"
        "  v = 1; u = \"s\"\n"
        "\n"
        "  t = 2 }\n"  // none needed before a brace
        "policy { param = f32; compute = bf16 }");
  assert_true(p.ok);
  assert_int_equal(p.text.items.n, 2);
  const PmStmts *body = &p.text.items.items[0].body;
  assert_int_equal(body->n, 6);
  assert_string_equal(body->items[0].names.items[0].text, "x");
  assert_int_equal(body->items[0].value->kind, PM_X_BINARY);
  assert_int_equal(body->items[1].value->args.n, 2);
  assert_int_equal(p.text.items.items[1].entries.n, 2);
  done(&p);
}

static void one_line_programs(void **state) {
  (void)state;
  Parsed p;
  parse(&p, "fn f(x) = x fn g(x) = x");
  assert_false(p.ok);
  done(&p);
  parse(&p, "fn f(x) { return x } fn g[a, b](x, y=1) { return x, y }");
  assert_true(p.ok);
  assert_int_equal(p.text.items.items[1].axes.n, 2);
  assert_int_equal(p.text.items.items[1].body.items[0].values.n, 2);
  done(&p);
}

static const PmExpr *value_of(Parsed *p, const char *expr) {
  static char text[256];
  snprintf(text, sizeof text, "a = %s", expr);
  parse_form(p, text, PM_TEXT_DEFS);
  assert_true(p->ok);
  return p->text.defs.items[0].value;
}

static void precedence(void **state) {
  (void)state;
  Parsed p;
  const PmExpr *e = value_of(&p, "-a ** 2 ** 3");  // -(a ** (2 ** 3))
  assert_int_equal(e->kind, PM_X_UNARY);
  assert_int_equal(e->a->fn, PM_S_pow);
  assert_int_equal(e->a->b->fn, PM_S_pow);
  done(&p);
  e = value_of(&p, "a - b - c * d");  // (a - b) - (c * d)
  assert_int_equal(e->fn, PM_S_sub);
  assert_int_equal(e->a->fn, PM_S_sub);
  assert_int_equal(e->b->fn, PM_S_mul);
  done(&p);
  e = value_of(&p, "not a == b and c");  // (not (a == b)) and c
  assert_int_equal(e->fn, PM_S_and);
  assert_int_equal(e->a->fn, PM_S_not);
  assert_int_equal(e->a->a->fn, PM_S_eq);
  done(&p);
  e = value_of(&p, "rename[a -> b](x)[c = 1].d");
  assert_int_equal(e->kind, PM_X_FIELD);
  assert_int_equal(e->a->kind, PM_X_BRACKET);
  assert_int_equal(e->a->a->kind, PM_X_CALL);
  assert_int_equal(e->a->a->a->to.n, 1);
  done(&p);
}

static void spans_are_bytes(void **state) {
  (void)state;
  Parsed p;
  const PmExpr *e = value_of(&p, "bb + f(c)");
  assert_int_equal(e->span.lo, 4);
  assert_int_equal(e->span.hi, 13);
  assert_int_equal(e->b->span.lo, 9);
  done(&p);
}

static void plan_items(void **state) {
  (void)state;
  Parsed p;
  parse_form(&p,
             "mesh data=4, tensor=2\n"
             "shard act seq in \"layer.*\" -> data + tensor\n"
             "shard param a, b -> none\n"
             "zero(stage=1, over=data)\n",
             PM_TEXT_PLAN);
  assert_true(p.ok);
  assert_int_equal(p.text.plan.n, 4);
  assert_string_equal(p.text.plan.items[1].role.text, "act");
  assert_string_equal(p.text.plan.items[1].scope.text, "layer.*");
  assert_int_equal(p.text.plan.items[1].targets.n, 2);
  assert_int_equal(p.text.plan.items[2].axes.n, 2);
  done(&p);
  parse_form(&p, "batch, seq -> data", PM_TEXT_RULE);
  assert_true(p.ok);
  assert_null(p.text.plan.items[0].role.text);
  done(&p);
}

static void errors_do_not_stop_the_parse(void **state) {
  (void)state;
  Parsed p;
  parse(&p, "axis a = = 1\nmodel m {\n  x = (y\n  z = 1 2\n  v = $ 3\n  w = 4\n}\naxis b = ,\n");
  assert_false(p.ok);
  assert_int_equal(pm_diags_errors(p.diags), 4);
  done(&p);
}

static char *repeated(PmArena *a, const char *before, const char *part, int n, const char *after) {
  PmBuf b;
  pm_buf_init(&b);
  pm_buf_puts(&b, before);
  for (int i = 0; i < n; i++) pm_buf_puts(&b, part);
  pm_buf_puts(&b, after);
  char *out = pm_arena_strdup(a, pm_buf_str(&b));
  pm_buf_deinit(&b);
  return out;
}

static void depth_is_capped(void **state) {
  (void)state;
  PmArena a;
  pm_arena_init(&a, 0);
  const char *const texts[] = {
      repeated(&a, "axis a = 1", " + 1", 100000, "\n"), repeated(&a, "axis a = ", "(", 100000, "1\n"),
      repeated(&a, "axis a = ", "-", 100000, "1\n"),    repeated(&a, "axis a = 1", " ** 1", 100000, "\n"),
      repeated(&a, "axis a = x", "[a]", 100000, "\n"),  repeated(&a, "model m ", "{ repeat a ", 100000, "\n"),
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    Parsed p;
    parse(&p, texts[i]);
    assert_false(p.ok);
    assert_int_equal(pm_diags_errors(p.diags), 1);
    done(&p);
  }
  Parsed p;
  parse(&p, repeated(&a, "axis a = 1", " + 1", 250, "\n"));
  assert_true(p.ok);
  done(&p);
  pm_arena_deinit(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(line_ends_end_statements),
      cmocka_unit_test(one_line_programs),
      cmocka_unit_test(precedence),
      cmocka_unit_test(spans_are_bytes),
      cmocka_unit_test(plan_items),
      cmocka_unit_test(errors_do_not_stop_the_parse),
      cmocka_unit_test(depth_is_capped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

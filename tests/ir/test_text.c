#include "fixture.h"

#include <stdlib.h>
#include <string.h>

// Everything that a module can hold, in its printed form.
static const char sample[] =
    "module local name=\"gpt\" plan=\"zero1\"\n"
    "axis batch 8 @\"gpt.pmodel\":3:5\n"
    "axis seq 16\n"
    "axis embed 32\n"
    "axis vocab 64\n"
    "axis layer 2\n"
    "axis \"odd name\" 1\n"
    "axis ff.2 64\n"
    "mesh data 2 @\"gpt.pplan\":1:1\n"
    "mesh tensor 2\n"
    "var \"wte\" param f32[vocab:64, embed:32] normal(0.02) update=\"sgd\" @\"gpt.pmodel\":9:3\n"
    "var \"layer.w\" param f32[layer:2, embed:32, ff.2:64/tensor] uniform(1e-05) update=\"sgd.2\"\n"
    "var \"layer.w/m\" state f32[layer:2, embed:32, ff.2:64/tensor] const(0) owner=\"layer.w\"\n"
    "var \"tokens\" input i32<vocab>[batch:8/data, seq:16] none\n"
    "var \"step\" step f64[] none\n"
    "data \"bytes\" files(\"a\\\"b.txt\", \"c\\x09d\") x=\"tokens\" y=\"tokens\" shuffle\n"
    "rule roles(param, act) axes(embed, ?) mesh(data, tensor) scope=\"layer.*\" text=\"shard embed\" "
    "@\"gpt.pplan\":4:2\n"
    "rule roles() axes(seq) mesh() none text=\"shard seq -> none\"\n"
    "rule roles() axes() mesh() pin=\"layer.h\" dims(batch/data+tensor, ?, seq) text=\"pin\"\n"
    "train model=\"gpt\" schedule=\"lr\" step=\"gpt.step\" eval=\"gpt\" clip=1 steps=100 seed=18446744073709551615\n"
    "\n"
    "fn lr schedule {\n"
    "  param %0 : f64[]\n"
    "  %1 = const -0.1 : f64[] @\"gpt.pmodel\":40:12\n"
    "  %2 = const inf : f64[]\n"
    "  %3 = map.min(%1, %2) : f64[]\n"
    "  return %3\n"
    "}\n"
    "\n"
    "fn \"body fn\" body {\n"
    "  param %0 : f32[batch:8/data, embed:32] \"x\"!\n"
    "  param %1 : f32[embed:32, ff.2:64/tensor]\n"
    "  %2 = dot[embed](%0, %1) : f32[batch:8/data, ff.2:64/tensor] \"layer.h\"!\n"
    "  %3 = rename[embed -> embed](%0) : f32[batch:8/data, embed:32] \"same\" @\"gpt.pmodel\":20:5\n"
    "  return %3, %2\n"
    "}\n"
    "\n"
    "fn nothing composite base=\"softmax\" {\n"
    "  return\n"
    "}\n"
    "\n"
    "fn gpt model {\n"
    "  param %0 : i32<vocab>[batch:8/data, seq:16] var=\"tokens\"\n"
    "  param %1 : f32[vocab:64, embed:32] var=\"wte\"\n"
    "  param %2 : f32[layer:2, embed:32, ff.2:64/tensor] var=\"layer.w\"\n"
    "  %3 = index[vocab](%1, %0) : f32[batch:8/data, seq:16, embed:32]\n"
    "  %4 = select[seq = 3](%3) : f32[batch:8/data, embed:32]\n"
    "  %5, %6 = repeat[layer] @\"body fn\" carry=1 inv=0 reverse (%4, %2) : f32[batch:8/data, embed:32] \"y\"!, "
    "f32[layer:2, batch:8/data, ff.2:64/tensor]!\n"
    "  call @nothing()\n"
    "  %7 = reduce.sum[batch](%5) : f32[embed:32]{+data}\n"
    "  %8 = all_reduce.sum[/ data](%7) : f32[embed:32]\n"
    "  %9 = pos[seq] : f64[seq:16/tensor]\n"
    "  %10 = reduce.max[seq](%9) : f64[]{max tensor}\n"
    "  %11 = stack[-> layer](%8, %8) : f32[layer:2, embed:32]\n"
    "  %12 = slice[embed / data+tensor](%11) : f32[layer:2, embed:32/data+tensor]\n"
    "  %13 = all_to_all[embed -> layer / tensor](%12) : f32[layer:2/tensor, embed:32/data]\n"
    "  %14 = slice[seq / tensor~zigzag](%3) : f32[batch:8/data, seq:16/tensor~zigzag, embed:32]\n"
    "  %15 = slice[seq / data](%9) : f64[seq:16/tensor+data]\n"
    "  %16 = shift[/ tensor](%14) : f32[batch:8/data, seq:16/tensor~zigzag, embed:32]\n"
    "  return %8 report=\"loss\", %2 var=\"layer.w\" report=\"w\", %13\n"
    "}\n"
    "\n"
    "fn sgd update {\n"
    "  return\n"
    "}\n"
    "\n"
    "fn sgd.2 update {\n"
    "  return\n"
    "}\n"
    "\n"
    "fn gpt.step step {\n"
    "  return\n"
    "}\n";

static void test_sample(void **state) {
  (void)state;
  Fixture fx;
  fixture_init(&fx);
  fixture_read(&fx, sample);
  const PmModule *m = fx.m;
  PmBuf out;
  pm_buf_init(&out);
  pm_module_print(m, &out);
  assert_string_equal(pm_buf_str(&out), sample);
  assert_int_equal(m->seed, UINT64_MAX);
  assert_string_equal(m->data.files[0], "a\"b.txt");
  assert_string_equal(m->data.files[1], "c\td");
  assert_int_equal(m->vars[2].owner, 1);
  assert_string_equal(pm_fn(m, m->vars[1].update)->name, "sgd.2");
  assert_int_equal(m->rules[0].axes[1], PM_NONE);
  assert_int_equal(m->rules[0].roles, 1U << PM_ROLE_PARAM | 1U << PM_ROLE_ACT);
  const PmFn *gpt = pm_fn(m, m->model);
  assert_string_equal(gpt->result_bind[0].report, "loss");
  assert_int_equal(gpt->result_bind[0].var, PM_NONE);
  assert_int_equal(gpt->param_bind[2].var, 1);
  assert_string_equal(gpt->values[5].name, "y");
  assert_true(gpt->values[6].bound);
  assert_false(gpt->values[7].bound);

  PmArena other;
  pm_arena_init(&other, 0);
  PmModule *clone = pm_module_clone(m, &other);
  pm_buf_clear(&out);
  pm_module_print(clone, &out);
  assert_string_equal(pm_buf_str(&out), sample);
  pm_arena_deinit(&other);
  pm_buf_deinit(&out);
  fixture_deinit(&fx);
}

// Reads a copy that ends where the text ends, so that a sanitizer sees a read past it.
static bool reads(const char *text, size_t len) {
  char *copy = malloc(len ? len : 1);
  memcpy(copy, text, len);
  Fixture fx;
  fixture_init(&fx);
  PmStatus *st = pm_module_read(&fx.arena, &fx.names, "t.pir", copy, len, &fx.m);
  free(copy);
  if (!st) st = pm_module_verify(fx.m);
  bool ok = !st;
  if (st) assert_int_equal(pm_status_code(st), PM_ERR_INPUT);
  pm_status_drop(st);
  fixture_deinit(&fx);
  return ok;
}

static void test_truncated(void **state) {
  (void)state;
  for (size_t n = 0; n < sizeof sample - 2; n++) reads(sample, n);
  assert_false(reads(sample, 0));
  assert_false(reads(sample, sizeof sample - 3));
}

static void test_mutated(void **state) {
  (void)state;
  char text[sizeof sample];
  uint64_t seed = 7;
  for (int32_t round = 0; round < 6000; round++) {
    memcpy(text, sample, sizeof sample);
    size_t len = sizeof sample - 1;
    for (int32_t k = round % 3; k >= 0; k--) {
      seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      size_t at = (size_t)(seed >> 33) % len;
      uint32_t how = (uint32_t)(seed >> 20) & 3;
      if (how == 0) {
        text[at] = (char)(seed >> 24);
      } else if (how == 1) {
        text[at] = sample[(seed >> 8) % len];
      } else if (how == 2) {
        memmove(text + at, text + at + 1, len - at - 1);
        text[--len] = 0;
      } else {
        text[at] = (char)('0' + (seed >> 24) % 10);
      }
    }
    reads(text, len);
  }
}

static void test_refused(void **state) {
  (void)state;
  fixture_refuse("", "t.pir:1: expected `module`");
  fixture_refuse("module local\naxis a 2\naxis a 2\n", "t.pir:3: axis `a` stands twice");
  fixture_refuse("module local\naxis a 0\n", "outside");
  fixture_refuse("module local\naxis a 99999999999999999999\n", "expected a whole number");
  fixture_refuse("module local\naxis a 2000000000000\n", "outside");
  fixture_refuse("module local\nmesh a 1048576\nmesh b 2\n", "2^20 ranks");
  fixture_refuse("module local\nvar \"a\" param f32[b:2] none\n", "no axis `b`");
  fixture_refuse("module local\naxis b 3\nvar \"a\" param f32[b:2] none\n", "has size 3");
  fixture_refuse("module local\naxis b 3\nmesh d 2\nvar \"a\" param f32[b:3/d] none\n", "does not divide");
  fixture_refuse("module local\naxis b 4\nmesh d 2\nvar \"a\" param f32[b:4/d+d] none\n", "used twice");
  fixture_refuse("module local\naxis b 4\nmesh d 2\nvar \"a\" param f32[b:4]{+d, +d} none\n", "mesh order");
  fixture_refuse("module local\naxis b 4\nvar \"a\" param f32<b>[] none\n", "only an i32");
  fixture_refuse("module local\nvar \"a\" state f32[] none owner=\"c\"\nvar \"b\" state f32[] none\n",
                 "t.pir:2: no variable `c`");
  fixture_refuse("module local\ntrain model=\"f\"\n", "no function `f`");
  fixture_refuse("module local\nfn f body {\n%1 = const 1 : f32[]\nreturn\n}\n", "next value is %0");
  fixture_refuse("module local\nfn f body {\n%0 = map.neg(%0) : f32[]\nreturn\n}\n", "no value %0 before");
  fixture_refuse("module local\nfn f body {\n%0 = neg(%0) : f32[]\nreturn\n}\n", "no op `neg`");
  fixture_refuse("module local\nfn f body {\n%0 = map(%0) : f32[]\nreturn\n}\n", "expected an op");
  fixture_refuse("module local\nfn f body {\n%0 = const 1 : f32[]\nreturn %1\n}\n", "no value %1");
  fixture_refuse("module local\nfn f body {\nreturn\n", "expected `}`");
  fixture_refuse("module local\nfn f body {\nreturn\n}\nfn f body {\nreturn\n}\n", "stands twice");
  fixture_refuse("module local\nvar \"v\" input f32[] none\nfn f body {\nparam %0 : i32[] var=\"v\"\nreturn\n}\n",
                 "has another type");
  fixture_refuse("module local name=\"a\nb\"\n", "control character");
  fixture_refuse("module local name=\"\\q\"\n", "bad escape");
  fixture_refuse("module local name=\"\\x00\"\n", "NUL");
  fixture_refuse("module local name=\"a", "without an end");
  fixture_refuse("module local\n\xff\n", "byte 0xff");
}

// Deep call chains are refused by the limit; wide texts are read in reasonable time.
static void test_limits(void **state) {
  (void)state;
  PmBuf text;
  pm_buf_init(&text);
  pm_buf_puts(&text, "module logical\nfn f0 body {\nreturn\n}\n");
  for (int32_t i = 1; i < 5000; i++) pm_buf_printf(&text, "fn f%d body {\ncall @f%d()\nreturn\n}\n", i, i - 1);
  fixture_refuse(pm_buf_str(&text), "nest more than 256 deep");
  pm_buf_clear(&text);
  pm_buf_puts(&text, "module logical\n");
  for (int32_t i = 0; i < 65536; i++) pm_buf_printf(&text, "axis a%d 1\n", i);
  for (int32_t i = 0; i < 1000; i++) pm_buf_printf(&text, "var \"v%d\" input f32[a%d:1] none\n", i, 65535 - i);
  assert_true(reads(pm_buf_str(&text), text.len));
  pm_buf_puts(&text, "axis b 1\n");
  fixture_refuse(pm_buf_str(&text), "more than 65536 axes");
  pm_buf_clear(&text);
  pm_buf_puts(&text, "module logical\nfn f body {\n%0 = const 1 : f32[]\n");
  for (int32_t i = 1; i < 50000; i++) pm_buf_printf(&text, "%%%d = map.neg(%%%d) : f32[]\n", i, i - 1);
  pm_buf_puts(&text, "return\n}\n");
  assert_true(reads(pm_buf_str(&text), text.len));
  pm_buf_deinit(&text);
}

// Printed numbers follow the order of definition, dead functions are left out, callees come first.
static void test_canonical(void **state) {
  (void)state;
  Fixture fx;
  fixture_init(&fx);
  PmModule *m = pm_module_new(&fx.arena, &fx.names);
  PmFnId caller = pm_module_add_fn(m, "caller", PM_FN_BODY), dead = pm_module_add_fn(m, "dead", PM_FN_BODY);
  PmFnId callee = pm_module_add_fn(m, "callee", PM_FN_COMPOSITE);
  pm_fn(m, dead)->dead = true;
  PmBuilder b = {.m = m, .fn = callee};
  PmValueId x = pm_b_param(&b, pm_type_scalar(PM_F32), "x");
  PmValueId unused = pm_b_map1(&b, PM_S_exp, x), y = pm_b_map1(&b, PM_S_neg, x);
  (void)unused;
  pm_b_results(&b, &y, 1);
  PmFn *f = pm_fn(m, callee);
  f->nodes[0] = f->nodes[1];
  f->n_nodes = 1;
  f->values[y].def = 0;
  b.fn = caller;
  PmValueId c = pm_b_const(&b, PM_F32, 2), r = pm_b_call(&b, callee, &c, 1);
  pm_b_results(&b, &r, 1);
  assert_null(pm_module_verify(m));
  PmBuf out;
  pm_buf_init(&out);
  pm_module_print(m, &out);
  assert_string_equal(pm_buf_str(&out),
                      "module logical\n"
                      "train clip=0 steps=0 seed=0\n"
                      "\n"
                      "fn callee composite {\n"
                      "  param %0 : f32[] \"x\"\n"
                      "  %1 = map.neg(%0) : f32[]\n"
                      "  return %1\n"
                      "}\n"
                      "\n"
                      "fn caller body {\n"
                      "  %0 = const 2 : f32[]\n"
                      "  %1 = call @callee(%0) : f32[]\n"
                      "  return %1\n"
                      "}\n");
  f->nodes[0].op = PM_OP_call;
  f->nodes[0].attr.callee = caller;
  PmStatus *st = pm_module_verify(m);
  assert_non_null(strstr(pm_status_message(st), "calls itself"));
  pm_status_drop(st);
  pm_buf_deinit(&out);
  fixture_deinit(&fx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sample),  cmocka_unit_test(test_truncated), cmocka_unit_test(test_mutated),
      cmocka_unit_test(test_refused), cmocka_unit_test(test_limits),    cmocka_unit_test(test_canonical),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

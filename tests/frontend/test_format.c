// The canonical layout: what it is, that it keeps the program, and that formatting twice changes nothing.
#include "harness.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "frontend/format.h"

typedef struct Text {
  PmArena arena;
  PmInterner names;
  PmSources sources;
  PmDiags *diags;
  PmBuf out;
  bool ok;
} Text;

static void format(Text *t, const char *text, size_t len, bool is_plan) {
  pm_arena_init(&t->arena, 0);
  pm_interner_init(&t->names, &t->arena);
  pm_sources_init(&t->sources, &t->arena);
  t->diags = pm_diags_new(&t->arena, &t->sources);
  pm_buf_init(&t->out);
  int32_t file = pm_sources_add(&t->sources, "text.pmodel", text, len);
  t->ok = pm_format(&t->arena, &t->names, &t->sources, t->diags, file, is_plan, &t->out);
}

static void text_free(Text *t) {
  pm_buf_deinit(&t->out);
  pm_arena_deinit(&t->arena);
}

typedef struct Case {
  const char *text, *expected;
} Case;

static const Case cases[] = {
    // spaces, signs and powers
    {"fn f(x)=-x**-2+( - x )*3\n", "fn f(x) = -x ** -2 + (-x) * 3\n"},
    {"fn f( x , y=2 )=x-y\n", "fn f(x, y=2) = x - y\n"},
    {"fn f(x) = not(x>=1 and x!=2)\n", "fn f(x) = not (x >= 1 and x != 2)\n"},
    // square brackets hold axes, and say `a = b` with spaces; round ones do not
    {"fn f[d](x)=split[d->pair,half]( x,pair = 2 )[pair=0:1]\n",
     "fn f[d](x) = split[d -> pair, half](x, pair=2)[pair = 0:1]\n"},
    {"plan p{remat(layer,save= [\"a\",\"b\"])}\n", "plan p { remat(layer, save=[\"a\", \"b\"]) }\n"},
    // a mesh has no spaces, an axis has
    {"axis a=1,b = 2\nplan p {\nmesh x = 1 , y=2\nshard a,b in \"*.w\"->x+y\n}\n",
     "axis a = 1, b = 2\nplan p {\n  mesh x=1, y=2\n  shard a, b in \"*.w\" -> x + y\n}\n"},
    // a block of one line stays one; of several lines, its braces end and begin lines
    {"policy{param=f32;compute=f32}\n", "policy { param = f32; compute = f32 }\n"},
    {"policy{param=f32;compute=f32;}\n", "policy { param = f32; compute = f32 }\n"},
    {"policy { param=f32;\ncompute=f32; }train{clip=1.0}\n",
     "policy {\n  param = f32\n  compute = f32\n}\ntrain { clip = 1.0 }\n"},
    {"plan a extends b{}\n", "plan a extends b { }\n"},
    // declared axes, types and indices
    {"model m{\nlogits:[a,b]=x\ninput t[a]in b\nparam w[a],v[b]~normal(0.1)\n\"x\n", NULL},
    {"model m{\nlogits:[a,b]=x\ninput t[a]in b\ninput u[a]:f32\nparam w[a],v[b]~normal(0.1)\nx+=1\n}\n",
     "model m {\n  logits: [a, b] = x\n  input t[a] in b\n  input u[a]: f32\n  param w[a], v[b] ~ normal(0.1)\n"
     "  x += 1\n}\n"},
    {"train{\n\"*.b?\":decay=0.0\n}\n", "train {\n  \"*.b?\": decay = 0.0\n}\n"},
    // blank lines: one at most, none at the edges of a block
    {"\n\naxis a = 1\n\n\n\naxis b = 1\nmodel m {\n\n  x = a\n\n}\n\n\n",
     "axis a = 1\n\naxis b = 1\nmodel m {\n  x = a\n}\n"},
    // comments: those of neighbours share a column, those on lines of their own follow the block
    {"axis a = 1 # one\naxis long = 2     # two  \n# three\naxis b = 3 # four\n",
     "axis a = 1     # one\naxis long = 2  # two\n# three\naxis b = 3  # four\n"},
    {"model m {# c\n# d\n      # e\nx = 1 ;# f\n# g\n}# h\n",
     "model m {  # c\n  # d\n  # e\n  x = 1  # f\n  # g\n}  # h\n"},
    // lines that go on
    {"fn f(x) = g(x,\ny) +\nz\n", "fn f(x) = g(x,\n    y) +\n    z\n"},
    {"fn f(x) = g(\nx\n)\n", "fn f(x) = g(\n    x\n)\n"},
    {"fn f(x) = x", "fn f(x) = x\n"},
    {"# only a comment", "# only a comment\n"},
    {"", ""},
};

static void layouts(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Text t, again;
    format(&t, cases[i].text, strlen(cases[i].text), false);
    assert_int_equal(t.ok, cases[i].expected != NULL);
    if (t.ok) {
      assert_string_equal(pm_buf_str(&t.out), cases[i].expected);
      format(&again, cases[i].expected, strlen(cases[i].expected), false);
      assert_string_equal(pm_buf_str(&again.out), cases[i].expected);
      text_free(&again);
    } else {
      assert_int_equal(t.out.len, 0);
      assert_true(pm_diags_errors(t.diags) > 0);
    }
    text_free(&t);
  }
}

static void plans_are_lists_of_items(void **state) {
  (void)state;
  Text t;
  const char *text = "mesh a = 2\n  shard x->a\n  pin( \"w\" , [ x / a + b , y ] )\n";
  format(&t, text, strlen(text), true);
  assert_true(t.ok);
  assert_string_equal(pm_buf_str(&t.out), "mesh a=2\nshard x -> a\npin(\"w\", [x/a+b, y])\n");
  text_free(&t);
}

// The same tokens with other space between them: no indentation, and every space between two words three times.
static char *mess_up(const char *text, size_t len) {
  char *out = malloc(3 * len + 1);
  assert_non_null(out);
  size_t n = 0;
  bool line_start = true, string = false, comment = false;
  for (size_t i = 0; i < len; i++) {
    char c = text[i];
    if (c == '\n') string = comment = false;
    if (c == '"' && !comment) string = !string;
    if (c == '#' && !string) comment = true;
    if (line_start && c == ' ') continue;
    line_start = c == '\n';
    bool between = c == ' ' && !string && !comment;
    for (int k = 0; k < (between ? 3 : 1); k++) out[n++] = c;
  }
  out[n] = '\0';
  return out;
}

static void check_file(const char *folder, const char *name) {
  PmArena arena;
  PmSources sources;
  pm_arena_init(&arena, 0);
  const char *path = pm_arena_printf(&arena, "%s/%s", folder, name);
  pm_sources_init(&sources, &arena);
  int32_t file;
  assert_null(pm_sources_load(&sources, path, PM_MAX_FILE_BYTES, &file));
  const PmSourceFile *source = &sources.files[file];
  Text t;
  format(&t, source->text, (size_t)source->len, false);
  if (!t.ok || strcmp(pm_buf_str(&t.out), source->text) != 0) fail_msg("%s is not in the canonical layout", path);
  text_free(&t);
  char *mess = mess_up(source->text, (size_t)source->len);
  format(&t, mess, strlen(mess), false);
  assert_true(t.ok);
  assert_string_equal(pm_buf_str(&t.out), source->text);
  text_free(&t);
  free(mess);
  pm_arena_deinit(&arena);
}

static void programs_of_this_repository(void **state) {
  (void)state;
  static const char *const folders[] = {PM_SOURCE_DIR "/examples", PM_SOURCE_DIR "/frontend",
                                        PM_SOURCE_DIR "/tests/frontend/data", PM_SOURCE_DIR "/tests/recorded"};
  int32_t n = 0;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    const char *path = folders[i];
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));) {
      const char *suffix = strrchr(e->d_name, '.');
      if (!suffix || strcmp(suffix, ".pmodel") != 0) continue;
      check_file(path, e->d_name);
      n++;
    }
    closedir(dir);
  }
  assert_true(n >= 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layouts),
      cmocka_unit_test(plans_are_lists_of_items),
      cmocka_unit_test(programs_of_this_repository),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

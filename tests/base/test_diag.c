#include "base/diag.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

static PmArena arena;
static PmSources sources;
static PmDiags *diags;
static char *printed;

static int set_up(void **state) {
  (void)state;
  pm_arena_init(&arena, 0);
  pm_sources_init(&sources, &arena);
  diags = pm_diags_new(&arena, &sources);
  printed = NULL;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  free(printed);
  pm_arena_deinit(&arena);
  return 0;
}

static int32_t add_file(const char *path, const char *text) {
  return pm_sources_add(&sources, path, text, strlen(text));
}

// The span of the nth (from 0) occurrence of `word`.
static PmSpan span_of(int32_t file, const char *word, int nth) {
  const char *text = sources.files[file].text, *at = strstr(text, word);
  for (; nth > 0; nth--) at = strstr(at + 1, word);
  int32_t lo = (int32_t)(at - text);
  return (PmSpan){file, lo, lo + (int32_t)strlen(word)};
}

static const char *print(bool json) {
  free(printed);
  size_t size;
  FILE *to = open_memstream(&printed, &size);
  pm_diags_print(diags, json, to);
  fclose(to);
  return printed;
}

static const char gpt2[] =
    "model gpt2\n"
    "axis embed = 768\n"
    "def attn(x) {\n"
    "  q = dot[embed](x, bq) + bq\n"
    "}\n";

static void carets_labels_and_help(void **state) {
  (void)state;
  int32_t f = add_file("gpt2.pmodel", gpt2);
  pm_diag(diags, PM_E_NO_AXIS, span_of(f, "embed", 1), "`dot` sums over `%s`, but `bq` has no such axis", "embed");
  pm_diag_label(diags, span_of(f, "x", 2), "`x`[batch, seq, embed]");
  pm_diag_label(diags, span_of(f, "bq", 0), "`bq`[heads, hdim]");
  pm_diag_note(diags, "sizes come from the model");
  pm_diag_help(diags, "parameters here with `embed`: `wq`");
  assert_string_equal(print(false),
                      "gpt2.pmodel:4:11: error[E0231]: `dot` sums over `embed`, but `bq` has no such axis\n"
                      " 4 |   q = dot[embed](x, bq) + bq\n"
                      "   |           ^^^^^  -  -- `bq`[heads, hdim]\n"
                      "   |                  |\n"
                      "   |                  `x`[batch, seq, embed]\n"
                      "note: sizes come from the model\n"
                      "help: parameters here with `embed`: `wq`\n");
}

static void label_at_the_primary_and_on_other_lines(void **state) {
  (void)state;
  int32_t f = add_file("gpt2.pmodel", gpt2);
  pm_diag(diags, PM_E_REDEFINED, span_of(f, "attn", 0), "`attn` is taken");
  pm_diag_label(diags, span_of(f, "attn", 0), "again here");
  pm_diag_label(diags, span_of(f, "gpt2", 0), "first here");
  pm_diag_label(diags, span_of(f, "q = dot", 0), "used here");
  pm_diag_label(diags, span_of(f, "}", 0), "ends here");
  assert_string_equal(print(false),
                      "gpt2.pmodel:3:5: error[E0203]: `attn` is taken\n"
                      " 1 | model gpt2\n"
                      "   |       ---- first here\n"
                      "...\n"
                      " 3 | def attn(x) {\n"
                      "   |     ^^^^ again here\n"
                      " 4 |   q = dot[embed](x, bq) + bq\n"
                      "   |   ------- used here\n"
                      " 5 | }\n"
                      "   | - ends here\n");
}

static void other_files_and_no_place(void **state) {
  (void)state;
  int32_t a = add_file("a.pmodel", "import b\nshard heads -> tensor\n");
  int32_t b = add_file("lib/b.pmodel", "\n\n\n\n\n\n\n\n\n\naxis heads = 12\n");
  pm_diag(diags, PM_E_DIVIDE, span_of(a, "heads", 0), "`heads` (12) does not divide over `tensor` (8)");
  pm_diag_label(diags, span_of(b, "12", 0), "the size");
  pm_diag_label(diags, PM_NO_SPAN, "mesh tensor=8 comes from --mesh");
  pm_diag(diags, PM_W_RULE_IDLE, PM_NO_SPAN, "rule `shard sqe -> tensor` never fires");
  assert_string_equal(print(false),
                      "a.pmodel:2:7: error[E0412]: `heads` (12) does not divide over `tensor` (8)\n"
                      "  2 | shard heads -> tensor\n"
                      "    |       ^^^^^\n"
                      "   --> lib/b.pmodel:11:14\n"
                      " 11 | axis heads = 12\n"
                      "    |              -- the size\n"
                      "note: mesh tensor=8 comes from --mesh\n"
                      "warning[W0407]: rule `shard sqe -> tensor` never fires\n");
}

static void overlaps_and_stacked_labels(void **state) {
  (void)state;
  int32_t f = add_file("o.pmodel", "aa bb cc dd\n");
  pm_diag(diags, PM_E_BROADCAST, span_of(f, "bb cc", 0), "overlap");
  pm_diag_label(diags, span_of(f, "bb cc", 0), "both");
  pm_diag_label(diags, span_of(f, "aa", 0), "left");
  pm_diag_label(diags, span_of(f, "cc dd", 0), "right");
  pm_diag_label(diags, span_of(f, "bb", 0), "inside");
  assert_string_equal(print(false),
                      "o.pmodel:1:4: error[E0230]: overlap\n"
                      " 1 | aa bb cc dd\n"
                      "   | -- ^^^^^--- right\n"
                      "   | |  |\n"
                      "   | |  inside\n"
                      "   | |  both\n"
                      "   | left\n");
}

static void columns_count_characters(void **state) {
  (void)state;
  int32_t f = add_file("u.pmodel", "\tcaf\xc3\xa9 = \xe2\x86\x92x\xff y\n");
  pm_diag(diags, PM_E_UNKNOWN_NAME, span_of(f, "y", 0), "unknown name `%s`", "y\x1b[31m");
  assert_string_equal(print(false),
                      "u.pmodel:1:13: error[E0201]: unknown name `y\xef\xbf\xbd[31m`\n"
                      " 1 |     caf\xc3\xa9 = \xe2\x86\x92x\xef\xbf\xbd y\n"
                      "   |                ^\n");
}

static void spans_outside_the_text(void **state) {
  (void)state;
  int32_t f = add_file("e.pmodel", "a {\n  b\n");
  pm_diag(diags, PM_E_SYNTAX, (PmSpan){f, 8, 8}, "the file ends here");
  pm_diag(diags, PM_E_SYNTAX, (PmSpan){f, 2, 8}, "several lines");
  pm_diag(diags, PM_E_SYNTAX, (PmSpan){f, INT32_MAX - 1, INT32_MAX}, "far away");
  pm_diag(diags, PM_E_SYNTAX, (PmSpan){7, 0, 1}, "no such file");
  assert_string_equal(print(false),
                      "e.pmodel:1:3: error[E0101]: several lines\n"
                      " 1 | a {\n"
                      "   |   ^\n"
                      "e.pmodel:3:1: error[E0101]: the file ends here\n"
                      " 3 |\n"
                      "   | ^\n"
                      "e.pmodel:3:1: error[E0101]: far away\n"
                      " 3 |\n"
                      "   | ^\n"
                      "error[E0101]: no such file\n");
}

static void long_lines_are_cut(void **state) {
  (void)state;
  enum { N = 1 << 20 };
  char *text = malloc(N + 1);
  memset(text, 'a', N);
  text[N] = '\0';
  text[N / 2] = 'b';
  int32_t f = add_file("long.pmodel", text);
  pm_diag(diags, PM_E_SYNTAX, (PmSpan){f, N / 2, N / 2 + 1}, "one long line");
  pm_diag_label(diags, (PmSpan){f, 0, 1}, "start");
  pm_diag_label(diags, (PmSpan){f, N - 1, N}, "end");
  print(false);
  assert_true(strlen(printed) < 1200);
  assert_non_null(strstr(printed, "\n 1 | ...aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabaaa"));
  assert_non_null(strstr(printed, "aaa...\n   |    -                                       ^   "));
  free(text);
}

static void source_order_and_count(void **state) {
  (void)state;
  int32_t f = add_file("m.pmodel", "abcdefghijklmnopqrstuvwxyz\n");
  pm_diag(diags, PM_W_RULE_IDLE, PM_NO_SPAN, "no place");
  for (int32_t i = 24; i >= 0; i--) {
    pm_diag(diags, PM_E_UNKNOWN_NAME, (PmSpan){f, i, i + 1}, "unknown name `%c`", 'a' + i);
  }
  print(false);
  const char *at = printed;
  for (int i = 0; i < 20; i++) {
    char expected[64];
    snprintf(expected, sizeof expected, "m.pmodel:1:%d: error[E0201]: unknown name `%c`\n", i + 1, 'a' + i);
    at = strstr(at, expected);
    assert_non_null(at);
  }
  assert_null(strstr(printed, "m.pmodel:1:21:"));
  assert_null(strstr(printed, "no place"));
  assert_non_null(strstr(printed, "\n25 errors and 1 warning in all; the first 20 are shown\n"));
  assert_int_equal(pm_diags_errors(diags), 25);
  assert_int_equal(pm_diags_warnings(diags), 1);
}

static void a_flood_is_counted(void **state) {
  (void)state;
  int32_t f = add_file("m.pmodel", "x\n");
  for (int i = 0; i < 100000; i++) {
    pm_diag(diags, PM_E_SYNTAX, (PmSpan){f, 0, 1}, "mistake %d", i);
    pm_diag_label(diags, (PmSpan){f, 0, 1}, "here");
    pm_diag_help(diags, "a help line");
  }
  assert_int_equal(pm_diags_errors(diags), 100000);
  assert_true(arena.used < 8 << 20);
  assert_non_null(strstr(print(false), "100000 errors and 0 warnings in all"));
}

static void strict_makes_errors(void **state) {
  (void)state;
  pm_diag(diags, PM_W_RULE_IDLE, PM_NO_SPAN, "never fires");
  assert_int_equal(pm_diags_errors(diags), 0);
  assert_string_equal(print(false), "warning[W0407]: never fires\n");
  pm_diags_set_strict(diags, true);
  assert_int_equal(pm_diags_errors(diags), 1);
  assert_int_equal(pm_diags_warnings(diags), 0);
  assert_string_equal(print(false), "error[W0407]: never fires\n");
}

static const char *page_as_json(PmDiagCode code) {
  PmBuf text;
  PmJson j;
  pm_buf_init(&text);
  pm_json_init(&j, &text, false);
  pm_json_str(&j, pm_diag_page(code));
  const char *copy = pm_arena_strdup(&arena, pm_buf_str(&text));
  pm_buf_deinit(&text);
  return copy;
}

static void json_lines(void **state) {
  (void)state;
  int32_t f = add_file("j.pmodel", "a = \"q\"\nb = c\n");
  pm_diag(diags, PM_E_UNKNOWN_NAME, span_of(f, "c", 0), "unknown name `c`");
  pm_diag_label(diags, span_of(f, "c", 0), "here");
  pm_diag_label(diags, span_of(f, "\"q\"", 0), "a \"text\"");
  pm_diag_help(diags, "did you mean `a`?");
  pm_diag(diags, PM_W_RULE_IDLE, PM_NO_SPAN, "idle");
  PmBuf want;
  pm_buf_init(&want);
  pm_buf_printf(&want,
                "{\"message\":\"unknown name `c`\",\"code\":{\"code\":\"E0201\",\"explanation\":%s},"
                "\"level\":\"error\",\"spans\":["
                "{\"file_name\":\"j.pmodel\",\"byte_start\":12,\"byte_end\":13,\"line_start\":2,\"line_end\":2,"
                "\"column_start\":5,\"column_end\":6,\"is_primary\":true,\"label\":\"here\"},"
                "{\"file_name\":\"j.pmodel\",\"byte_start\":4,\"byte_end\":7,\"line_start\":1,\"line_end\":1,"
                "\"column_start\":5,\"column_end\":8,\"is_primary\":false,\"label\":\"a \\\"text\\\"\"}],"
                "\"children\":[{\"message\":\"did you mean `a`?\",\"code\":null,\"level\":\"help\",\"spans\":[],"
                "\"children\":[],\"rendered\":null}],"
                "\"rendered\":\"j.pmodel:2:5: error[E0201]: unknown name `c`\\n"
                " 1 | a = \\\"q\\\"\\n   |     --- a \\\"text\\\"\\n 2 | b = c\\n   |     ^ here\\n"
                "help: did you mean `a`?\\n\"}\n",
                page_as_json(PM_E_UNKNOWN_NAME));
  pm_buf_printf(&want,
                "{\"message\":\"idle\",\"code\":{\"code\":\"W0407\",\"explanation\":%s},\"level\":\"warning\","
                "\"spans\":[],\"children\":[],\"rendered\":\"warning[W0407]: idle\\n\"}\n",
                page_as_json(PM_W_RULE_IDLE));
  assert_string_equal(print(true), pm_buf_str(&want));
  pm_buf_deinit(&want);
}

// An edit goes with a suggestion where the primary span is the misspelt name itself.
static void suggestions_carry_edits(void **state) {
  (void)state;
  int32_t f = add_file("e.pmodel", "aa = bb + cc\n");
  pm_diag(diags, PM_E_UNKNOWN_NAME, span_of(f, "cc", 0), "unknown name `cc`");
  pm_diag_suggest(diags, "cc", "ccc");
  pm_diag(diags, PM_E_UNKNOWN_NAME, span_of(f, "bb", 0), "unknown name `bb`");
  pm_diag_suggest(diags, "bb", "bbb");
  pm_diag(diags, PM_E_UNKNOWN_NAME, span_of(f, "bb + cc", 0), "unknown name `bb`");
  pm_diag_suggest(diags, "bb", "bbb");
  pm_diag(diags, PM_E_UNKNOWN_NAME, span_of(f, "bb", 0), "once more");
  pm_diag_suggest(diags, "bb", "b");
  PmDiagEdit *edits;
  assert_int_equal(pm_diags_edits(diags, &edits), 2);
  assert_string_equal(edits[0].text, "bbb");
  assert_int_equal(edits[0].span.lo, 5);
  assert_string_equal(edits[1].text, "ccc");
  assert_non_null(
      strstr(print(true), "\"suggested_replacement\":\"ccc\",\"suggestion_applicability\":\"MachineApplicable\""));
}

static void nothing_prints_nothing(void **state) {
  (void)state;
  assert_string_equal(print(false), "");
  assert_string_equal(print(true), "");
}

static void the_table_is_sound(void **state) {
  (void)state;
  for (int i = 0; i < PM_DIAG_COUNT; i++) {
    PmDiagCode code = (PmDiagCode)i, found;
    const char *text = pm_diag_code_text(code);
    assert_int_equal(strlen(text), 5);
    assert_int_equal(text[0], pm_diag_severity(code) == PM_SEV_ERROR ? 'E' : 'W');
    assert_true(pm_diag_find(text, &found));
    assert_int_equal(found, code);
    assert_true(strlen(pm_diag_title(code)) > 0);
    assert_true(strlen(pm_diag_page(code)) > 0);
  }
  PmDiagCode found;
  assert_true(pm_diag_find("e0231", &found));
  assert_int_equal(found, PM_E_NO_AXIS);
  assert_false(pm_diag_find("E9999", &found));
  assert_false(pm_diag_find("", &found));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(carets_labels_and_help),
      TEST(label_at_the_primary_and_on_other_lines),
      TEST(other_files_and_no_place),
      TEST(overlaps_and_stacked_labels),
      TEST(columns_count_characters),
      TEST(spans_outside_the_text),
      TEST(long_lines_are_cut),
      TEST(source_order_and_count),
      TEST(a_flood_is_counted),
      TEST(strict_makes_errors),
      TEST(json_lines),
      TEST(suggestions_carry_edits),
      TEST(nothing_prints_nothing),
      TEST(the_table_is_sound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

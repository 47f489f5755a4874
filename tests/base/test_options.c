#include "base/options.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

static PmArena arena;
static PmOptions options;
static bool done;

static int set_up(void **state) {
  (void)state;
  pm_arena_init(&arena, 0);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  pm_arena_deinit(&arena);
  return 0;
}

#define ARGV(...) \
  (char *[]) { "pmodel", __VA_ARGS__, NULL }

static PmStatus *parse(char **argv) {
  int argc = 0;
  while (argv[argc]) argc++;
  return pm_options_parse(&arena, argc, argv, &options, &done);
}

static void accept(char **argv) {
  PmStatus *st = parse(argv);
  assert_string_equal(pm_status_message(st), "");
  assert_null(st);
}

static void refuse(char **argv, const char *message) {
  PmStatus *st = parse(argv);
  assert_int_equal(pm_status_code(st), PM_ERR_USAGE);
  assert_string_equal(pm_status_message(st), message);
  pm_status_drop(st);
}

static void defaults_and_values(void **state) {
  (void)state;
  accept(ARGV("train", "gpt.pmodel"));
  assert_int_equal(options.command, PM_CMD_train);
  assert_int_equal(options.n_args, 1);
  assert_string_equal(options.args[0], "gpt.pmodel");
  assert_string_equal(options.target, "cpu");
  assert_string_equal(options.diagnostics, "text");
  assert_int_equal(options.seed, -1);
  assert_null(options.plan);
  assert_false(options.json || done);
  accept(ARGV("train", "--steps=20", "--seed", "3", "gpt.pmodel", "--set", "axis.layer=2", "--set=lr=1e-3", "--strict",
              "--mesh=data=2,tensor=2", "--target=null", "--out", "run1"));
  assert_int_equal(options.steps, 20);
  assert_int_equal(options.seed, 3);
  assert_int_equal(options.set.n, 2);
  assert_string_equal(options.set.items[0], "axis.layer=2");
  assert_string_equal(options.set.items[1], "lr=1e-3");
  assert_string_equal(options.mesh, "data=2,tensor=2");
  assert_string_equal(options.target, "null");
  assert_string_equal(options.run_dir, "run1");
  assert_true(options.strict);
  accept(ARGV("compile", "-o", "-", "--", "--odd-name"));
  assert_string_equal(options.out, "-");
  assert_string_equal(options.args[0], "--odd-name");
  accept(ARGV("check", "--json", "--json", "--shard=a -> b", "--shard=c -> d"));
  assert_true(options.json);
  assert_int_equal(options.shard.n, 2);
  accept(ARGV("check", "-"));
  assert_string_equal(options.args[0], "-");
}

static void usage_errors(void **state) {
  (void)state;
  refuse(ARGV("train", "a.pmodel", "--seed=-3"), "`--seed` needs a number that is not below 0, not `-3`");
  refuse(ARGV("trian"), "unknown command `trian`: did you mean `train`?");
  refuse(ARGV("frobnicate"), "unknown command `frobnicate`: `pmodel --help` lists them");
  refuse(ARGV("train", "--stpes=3"), "unknown option `--stpes`: did you mean `--steps`?");
  refuse(ARGV("train", "--wibble"), "unknown option `--wibble`: `pmodel train --help` lists them");
  refuse(ARGV("check", "--steps=3"), "`pmodel check` does not take `--steps` (it belongs to: compile, train, verify)");
  refuse(ARGV("train", "--steps"), "`--steps` needs a value (N)");
  refuse(ARGV("train", "--steps="), "`--steps` needs a whole number, not ``");
  refuse(ARGV("train", "--steps=1e3"), "`--steps` needs a whole number, not `1e3`");
  refuse(ARGV("train", "--steps= 3"), "`--steps` needs a whole number, not ` 3`");
  refuse(ARGV("train", "--steps=99999999999999999999"), "`--steps` needs a whole number, not `99999999999999999999`");
  refuse(ARGV("train", "--plan=a", "--plan", "b"), "`--plan` is given twice, and holds one value");
  refuse(ARGV("train", "--mesh=a=2", "--mesh=a=2"), "`--mesh` is given twice, and holds one value");
  refuse(ARGV("train", "--steps=2", "--steps=3"), "`--steps` is given twice, and holds one value");
  refuse(ARGV("compile", "-o", "a", "-o", "b"), "`-o` is given twice, and holds one value");
  refuse(ARGV("train", "--json=yes"), "`--json` takes no value");
  refuse(ARGV("train", "--target=nul"), "`nul` is not a value of `--target` (cpu|null): did you mean `null`?");
  refuse(ARGV("train", "--target=tpu9"), "`tpu9` is not a value of `--target` (cpu|null)");
  refuse(ARGV("train", "--diagnostics="), "`` is not a value of `--diagnostics` (text|json)");
  refuse((char *[]){"pmodel", NULL}, "a command is needed: `pmodel --help` lists them");
  refuse((char *[]){NULL}, "a command is needed: `pmodel --help` lists them");
}

static void too_many(void **state) {
  (void)state;
  char *argv[40] = {"pmodel", "check"};
  for (int i = 2; i < 39; i++) argv[i] = "x";
  refuse(argv, "more than 32 arguments");
  for (int i = 2; i < 39; i++) argv[i] = "--set=a=1";
  refuse(argv, "`--set` is given more than 32 times");
}

static void help_text(void **state) {
  (void)state;
  char *text = NULL;
  size_t size;
  FILE *to = open_memstream(&text, &size);
  pm_options_print_help(PM_CMD_opt, to);
  fclose(to);
  assert_string_equal(text,
                      "usage: pmodel opt [options] X.pir --passes=A,B\n"
                      "\n"
                      "run passes over IR text\n"
                      "\n"
                      "options:\n"
                      "  --diagnostics text|json    form of diagnostics on stderr (default: text)\n"
                      "  --dump-to DIR              write the IR after each pass to DIR\n"
                      "  --json                     machine-readable answer on stdout\n"
                      "  -o FILE                    output file (- for stdout)\n"
                      "  --passes A,B               passes to run, in order\n"
                      "  --print-ir-after PASS      print the IR on stderr after a pass, after `all`, or after those "
                      "that `changed` it\n"
                      "  --print-ir-diff            print what a pass changed in the IR instead; alone: of every pass "
                      "that did\n"
                      "  --strict                   warnings are errors\n"
                      "  --help                     print this text\n");
  free(text);
}

static void overview_names_every_command(void **state) {
  (void)state;
  char *text = NULL;
  size_t size;
  FILE *to = open_memstream(&text, &size);
  pm_options_print_help(PM_CMD_COUNT, to);
  fclose(to);
  for (int i = 0; i < PM_CMD_COUNT; i++) {
    char row[64];
    snprintf(row, sizeof row, "\n  %-10s ", pm_command_name((PmCommand)i));
    assert_non_null(strstr(text, row));
  }
  free(text);
}

// Runs the parser with stdout sent to a file, and returns what was printed.
static char *printed_by(char **argv) {
  FILE *copy = tmpfile();
  assert_non_null(copy);
  fflush(stdout);
  int saved = dup(STDOUT_FILENO);
  dup2(fileno(copy), STDOUT_FILENO);
  PmStatus *st = parse(argv);
  fflush(stdout);
  dup2(saved, STDOUT_FILENO);
  close(saved);
  assert_null(st);
  assert_true(done);
  rewind(copy);
  char *text = calloc(1, 8192);
  assert_true(fread(text, 1, 8191, copy) > 0);
  fclose(copy);
  return text;
}

static void help_and_version_are_answered(void **state) {
  (void)state;
  char *text = printed_by(ARGV("--help"));
  assert_non_null(strstr(text, "usage: pmodel COMMAND"));
  free(text);
  text = printed_by(ARGV("train", "--steps=3", "--help", "--nonsense"));
  assert_non_null(strstr(text, "usage: pmodel train"));
  free(text);
  text = printed_by(ARGV("--version"));
  assert_int_equal(strncmp(text, "pmodel ", 7), 0);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults_and_values),
      cmocka_unit_test(usage_errors),
      cmocka_unit_test(too_many),
      cmocka_unit_test(help_text),
      cmocka_unit_test(overview_names_every_command),
      cmocka_unit_test(help_and_version_are_answered),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

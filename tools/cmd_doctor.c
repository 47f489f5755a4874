// What this machine has of what pmodel can use, and what is switched off without the rest. Libraries are opened the
// same way as at run time: by name, through base/dl.
#include <unistd.h>

#include "base/dl.h"
#include "codegen/cpu/llvm_compiler.h"
#include "runtime/comm/mpi_open.h"
#include "runtime/devices/blas.h"
#include "tools/show.h"

#define MPI_VERSION_BYTES 8192

typedef struct Finding {
  const char *name;
  bool found;
  const char *text;  // what was found, or what is missing
  const char *off;   // what does not work without it
} Finding;

typedef Finding Probe(PmArena *arena);

// ISO C has no conversion from an object to a function pointer; POSIX promises that the bits agree.
#define AS(type, address) (*(type *)(void *)&(address))

typedef int IntOut(int *out);
typedef int TwoOut(int *major, int *minor);
typedef int TextOut(char *text, int *len);
typedef int IntIn(unsigned flags);
typedef char *Text(void);

// NULL, or the reason why none of the libraries opens, on one line.
static const char *why_not(PmArena *arena, PmStatus *st, const char *const *sonames) {
  if (!st) return NULL;
  pm_status_drop(st);
  return pm_arena_printf(arena, "%s is not installed", sonames[0]);
}

static Finding processors(PmArena *arena) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return (Finding){"processors", true, pm_arena_printf(arena, "%ld", n), NULL};
}

static Finding llvm(PmArena *arena) {
  PmLlvmInfo info;
  Finding f = {.name = "LLVM", .off = "compiled CPU kernels"};
  PmStatus *st = pm_llvm_describe(arena, &info);
  f.found = !st;
  f.text = st ? pm_arena_strdup(arena, pm_status_message(st))
              : pm_arena_printf(arena, "%s, target %s, %s, vectors of %d bits", info.version, info.cpu, info.triple,
                                info.vector_bits);
  pm_status_drop(st);
  return f;
}

static Finding blas(PmArena *arena) {
  static const char *const sonames[] = {"libopenblas.so.0", "libopenblas.so", NULL};
  PmBlas library;
  Finding f = {.name = "BLAS", .off = "fast matrix products on the CPU: `--target cpu` stops with exit code 3"};
  void *core = NULL, *config = NULL;
  const PmDlSymbol symbols[] = {{"openblas_get_corename", &core}, {"openblas_get_config", &config}};
  PmStatus *st = pm_blas_open(&library);
  if (!st) st = pm_dl_open(sonames, symbols, 2);
  f.text = why_not(arena, st, sonames);
  f.found = !f.text;
  if (f.found) f.text = pm_arena_printf(arena, "%s, kernels for %s", AS(Text *, config)(), AS(Text *, core)());
  return f;
}

static Finding mpi(PmArena *arena) {
  static const char *const sonames[] = {"libmpi.so.40", "libmpi.so.12", "libmpi.so", NULL};
  Finding f = {.name = "MPI", .off = "what the MPI plugin is built on"};
  void *version = NULL;
  const PmDlSymbol symbols[] = {{"MPI_Get_library_version", &version}};
  f.text = why_not(arena, pm_dl_open(sonames, symbols, 1), sonames);
  f.found = !f.text;
  if (!f.found) return f;
  char *text = pm_arena_alloc(arena, MPI_VERSION_BYTES);
  int len = 0;
  if (AS(TextOut *, version)(text, &len) != 0) len = 0;
  int end = 0;
  while (end < len && text[end] != ',' && text[end] != '\n' && text[end] != '\0') end++;
  f.text = pm_arena_strndup(arena, text, (size_t)end);
  return f;
}

static Finding mpi_plugin(PmArena *arena) {
  Finding f = {.name = "MPI plugin", .off = "ranks over MPI: `mpirun pmodel train` stops with exit code 3"};
  PmTransportOpen *open;
  PmStatus *st = pm_mpi_find(NULL, &open);
  f.found = !st;
  f.text = st ? pm_arena_printf(arena,
                                "%s does not load: it is built where MPI's headers are (libopenmpi-dev), and needs MPI",
                                PM_MPI_PLUGIN)
              : pm_arena_printf(arena, "%s, version %d", PM_MPI_PLUGIN, PM_TRANSPORT_VERSION);
  pm_status_drop(st);
  return f;
}

static Finding cuda_driver(PmArena *arena) {
  static const char *const sonames[] = {"libcuda.so.1", "libcuda.so", NULL};
  Finding f = {.name = "CUDA driver", .off = "the GPU device"};
  void *init = NULL, *version = NULL, *count = NULL;
  const PmDlSymbol symbols[] = {{"cuInit", &init}, {"cuDriverGetVersion", &version}, {"cuDeviceGetCount", &count}};
  f.text = why_not(arena, pm_dl_open(sonames, symbols, 3), sonames);
  if (f.text) return f;
  int v = 0, n = 0;
  bool works = AS(IntIn *, init)(0) == 0 && AS(IntOut *, version)(&v) == 0 && AS(IntOut *, count)(&n) == 0;
  f.found = works && n > 0;
  f.text = works ? pm_arena_printf(arena, "%d.%d, %d device%s", v / 1000, v % 1000 / 10, n, pm_plural(n))
                 : "the library is there, but does not start: no device, or a driver of another version";
  return f;
}

static Finding nvrtc(PmArena *arena) {
  static const char *const sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so", NULL};
  Finding f = {.name = "NVRTC", .off = "compiled GPU kernels"};
  void *version = NULL;
  const PmDlSymbol symbols[] = {{"nvrtcVersion", &version}};
  f.text = why_not(arena, pm_dl_open(sonames, symbols, 1), sonames);
  int major = 0, minor = 0;
  f.found = !f.text && AS(TwoOut *, version)(&major, &minor) == 0;
  if (f.found) f.text = pm_arena_printf(arena, "%d.%d", major, minor);
  return f;
}

static Finding nccl(PmArena *arena) {
  static const char *const sonames[] = {"libnccl.so.2", "libnccl.so", NULL};
  Finding f = {.name = "NCCL", .off = "collectives between GPUs"};
  void *version = NULL;
  const PmDlSymbol symbols[] = {{"ncclGetVersion", &version}};
  f.text = why_not(arena, pm_dl_open(sonames, symbols, 1), sonames);
  int v = 0;
  f.found = !f.text && AS(IntOut *, version)(&v) == 0;
  // Since 2.9 the number has two digits for the minor version.
  if (f.found) f.text = pm_arena_printf(arena, "%d.%d.%d", v / 10000, v % 10000 / 100, v % 100);
  return f;
}

static Probe *const probes[] = {processors, llvm, blas, mpi, mpi_plugin, cuda_driver, nvrtc, nccl};
enum { N_PROBES = sizeof probes / sizeof *probes };

static void print_json(const Finding *findings) {
  PmAnswer a;
  pm_answer_begin(&a);
  pm_json_key(&a.json, "components");
  pm_json_array(&a.json);
  for (int32_t i = 0; i < N_PROBES; i++) {
    pm_json_object(&a.json);
    pm_json_put_str(&a.json, "name", findings[i].name);
    pm_json_put_bool(&a.json, "found", findings[i].found);
    pm_json_put_str(&a.json, "text", findings[i].text);
    pm_json_put_str(&a.json, "switches_off", findings[i].found ? NULL : findings[i].off);
    pm_json_end_object(&a.json);
  }
  pm_json_end_array(&a.json);
  pm_answer_end(&a);
}

PmStatus *pm_cmd_doctor(PmTool *t) {
  if (t->opt.n_args > 0)
    return PM_STATUS(PM_ERR_USAGE, "`pmodel doctor` takes no file; `%s` is left over", t->opt.args[0]);
  Finding findings[N_PROBES];
  for (int32_t i = 0; i < N_PROBES; i++) findings[i] = probes[i](&t->arena);
  if (t->opt.json) {
    print_json(findings);
    return NULL;
  }
  PmTable table;
  pm_table_init(&table, &t->arena, "lll");
  for (int32_t i = 0; i < N_PROBES; i++) {
    pm_table_cell(&table, findings[i].name);
    pm_table_cell(&table, findings[i].found ? "found" : "missing");
    pm_table_cell(&table, findings[i].text);
    if (findings[i].found) continue;
    pm_table_cell(&table, "");
    pm_table_cell(&table, "");
    pm_table_printf(&table, "switched off: %s", findings[i].off);
  }
  pm_table_print(&table, "", stdout);
  return NULL;
}

// One description of what a program consists of (program_io.c), walked by four small carriers: binary out and in
// (program_write.c, program_read.c), text out and in (program_print.c, program_text.c). A field that is added to the
// description is carried by all of them, in the same order.
//
// Reading never trusts: a carrier reports the first fault through pm_io_fail, keeps returning harmless values, and its
// caller looks at `status` at the end. `status` belongs to the caller.
#ifndef PM_RUNTIME_PROGRAM_IO_H
#define PM_RUNTIME_PROGRAM_IO_H

#include "runtime/program.h"

typedef struct PmIo PmIo;
typedef struct PmIoVtbl {
  // Another record? On writing answers i < n; on reading looks into the data. `tag` names the record in text.
  bool (*next)(PmIo *io, const char *tag, int32_t i, int32_t n);
  void (*end)(PmIo *io);  // ends the record that `next` (or `open`) began
  // A record that is always there; a section of the binary form when `section`.
  void (*open)(PmIo *io, const char *tag, bool section);
  // Fields. A text carrier leaves out a field that has its default.
  void (*integer)(PmIo *io, const char *key, int64_t *v, int64_t init);
  void (*word)(PmIo *io, const char *key, int64_t *v, int64_t init, const char *const *words, int32_t n);
  void (*number)(PmIo *io, const char *key, double *v);
  void (*string)(PmIo *io, const char *key, const char **v);
  // *n <= max integers; reading sets the rest to zero. With `trim` zeros at the end are left out.
  void (*list)(PmIo *io, const char *key, int64_t *v, int32_t *n, int32_t max, bool trim);
} PmIoVtbl;

struct PmIo {
  const PmIoVtbl *vtbl;
  PmArena *arena;  // reading: where the program goes
  bool reading;
  int64_t budget;    // reading: bytes that may still be allocated
  const char *path;  // for messages
  PmStatus *status;
};

// Moves one whole program. When reading, `p` is zeroed but for its arena.
void pm_program_io(PmIo *io, PmProgram *p);
void pm_io_fail(PmIo *io, PmCode code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// Zeroed memory for reading within the budget; NULL (and a fault) beyond it.
void *pm_io_alloc(PmIo *io, int64_t count, size_t size);

#define PM_PRUN_MAGIC "\x89PMPRUN\n"  // not text in any encoding
#define PM_PRUN_TEXT "pmodel.prun"    // first word of the text form

PM_MUST_CHECK PmStatus *pm_program_read_text(PmArena *arena, const char *path, const char *text, size_t len,
                                             PmProgram **out);
// Memory that reading `len` bytes may take.
int64_t pm_program_budget(size_t len);
// Well-formed UTF-8 without control characters.
bool pm_io_string_ok(const char *s);

#endif

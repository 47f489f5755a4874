// What the two halves of the reader share: text_read.c (the module) and text_read_fn.c (types and functions).
#ifndef PM_IR_TEXT_READ_H
#define PM_IR_TEXT_READ_H

#include "ir/ir.h"
#include "ir/namemap.h"
#include "ir/text_lex.h"

typedef struct PmReader {
  PmLexer x;
  PmModule *m;
  PmArena scratch;  // dies with the reader
  PmArena node;     // reset at each node
  PmNameMap axes, fns;
  int32_t *depth;  // by function: how deep its calls nest
  int32_t cap_depth;
  PmBuf why;
} PmReader;

bool pm_read_axis(PmReader *r, PmAxisId *out);
bool pm_read_mesh(PmReader *r, uint8_t *out);
// `/a+b`, if it is there.
bool pm_read_split(PmReader *r, PmSplit *out);
// `12`, or padded `12^16`: out_size = 16, out_pad = 4.
bool pm_read_size(PmReader *r, int64_t *out_size, int64_t *out_pad);
bool pm_read_type(PmReader *r, PmType *out);
// `@"path":line:col`, if it is there.
bool pm_read_loc(PmReader *r, PmLoc *out);
bool pm_read_fn(PmReader *r);

#endif

// Columns of the op table that only ir/ asks for.
#ifndef PM_IR_OPTABLE_H
#define PM_IR_OPTABLE_H

#include "ir/ir.h"

// The fields of PmAttr that an op uses.
typedef enum PmAttrField {
  PM_A_NUMBER = 1,
  PM_A_INDEX = 2,
  PM_A_FN = 4,
  PM_A_KIND = 8,
  PM_A_AXES = 16,
  PM_A_TO = 32,
  PM_A_MESH = 64,
  PM_A_CALLEE = 128,
  PM_A_TURNS = 256,  // n_carry, n_inv, reverse
  PM_A_GROUP = 512,  // mesh, if there are any; only then at stage LOCAL alone
  PM_A_BOUNDED = 1024,
  PM_A_ORDER = 2048,  // zigzag, after the first of mesh
} PmAttrField;

int32_t pm_op_n_in(PmOp op);   // -1: varies
int32_t pm_op_n_out(PmOp op);  // -1: varies
uint32_t pm_op_fields(PmOp op);

#endif

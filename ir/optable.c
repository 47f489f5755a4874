#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "ir/ir.h"
#include "ir/optable.h"

typedef struct OpRow {
  const char *name;
  int32_t n_in, n_out;
  uint32_t flags;
} OpRow;

static const OpRow ops[] = {
#define OP(name, n_in, n_out, flags) [PM_OP_##name] = {#name, n_in, n_out, flags},
#include "ir/ops.def"
};

static const uint32_t op_fields[] = {
#define OP(name, n_in, n_out, flags) [PM_OP_##name] =
#define ATTR(fields) fields,
#include "ir/ops.def"
};

static const OpRow *op_row(PmOp op) {
  PM_ASSERT((unsigned)op < PM_OP_COUNT, "op %d", (int)op);
  return &ops[op];
}

const char *pm_op_name(PmOp op) { return op_row(op)->name; }
uint32_t pm_op_flags(PmOp op) { return op_row(op)->flags; }
int32_t pm_op_n_in(PmOp op) { return op_row(op)->n_in; }
int32_t pm_op_n_out(PmOp op) { return op_row(op)->n_out; }

uint32_t pm_op_fields(PmOp op) {
  PM_ASSERT((unsigned)op < PM_OP_COUNT, "op %d", (int)op);
  return op_fields[op];
}

PmOp pm_op_find(const char *name) {
  int32_t op = 0;
  while (op < PM_OP_COUNT && strcmp(ops[op].name, name) != 0) op++;
  return (PmOp)op;
}

static double pm_max_nan(double a, double b) { return a != a || a > b ? a : b; }
static double pm_min_nan(double a, double b) { return a != a || a < b ? a : b; }

#define SCALAR(name, arity, out, linear) static double eval_##name(double a, double b, double c)
#define EVAL(expr)             \
  {                            \
    (void)a, (void)b, (void)c; \
    return expr;               \
  }
#include "ir/scalars.def"

static const struct {
  const char *name;
  int32_t arity;
  PmScalarOut out;
  PmLinear linear;
  double (*eval)(double a, double b, double c);
} scalars[] = {
#define SCALAR(name, arity, out, linear) [PM_S_##name] = {#name, arity, PM_OUT_##out, PM_LIN_##linear, eval_##name},
#include "ir/scalars.def"
};

const char *pm_scalar_name(PmScalar fn) {
  PM_ASSERT((unsigned)fn < PM_SCALAR_COUNT, "scalar function %d", (int)fn);
  return scalars[fn].name;
}

int32_t pm_scalar_arity(PmScalar fn) {
  PM_ASSERT((unsigned)fn < PM_SCALAR_COUNT, "scalar function %d", (int)fn);
  return scalars[fn].arity;
}

PmScalarOut pm_scalar_out(PmScalar fn) {
  PM_ASSERT((unsigned)fn < PM_SCALAR_COUNT, "scalar function %d", (int)fn);
  return scalars[fn].out;
}

PmLinear pm_scalar_linear(PmScalar fn) {
  PM_ASSERT((unsigned)fn < PM_SCALAR_COUNT, "scalar function %d", (int)fn);
  return scalars[fn].linear;
}

PmScalar pm_scalar_find(const char *name) {
  int32_t fn = 0;
  while (fn < PM_SCALAR_COUNT && strcmp(scalars[fn].name, name) != 0) fn++;
  return (PmScalar)fn;
}

double pm_scalar_eval(PmScalar fn, double a, double b, double c) {
  PM_ASSERT((unsigned)fn < PM_SCALAR_COUNT, "scalar function %d", (int)fn);
  return scalars[fn].eval(a, b, c);
}

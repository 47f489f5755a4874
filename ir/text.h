// Text form of a module: prints and reads back to itself, byte for byte. No addresses, times or hash order.
//
//   module local name="gpt" plan="zero1"
//   axis batch 8 @"gpt.pmodel":3:5
//   mesh data 2
//   var "layer.w" param f32[embed:32, ff:64] normal(0.02) update="sgd"
//   fn gpt.layer body {
//     param %0 : f32[batch:8/data, embed:32] "x"!
//     param %1 : f32[embed:32, ff:64] var="layer.w"
//     %2 = dot[embed](%0, %1) : f32[batch:8/data, ff:64] "layer.h"! @"gpt.pmodel":12:5
//     return %2
//   }
//
// One statement a line; // begins a comment. A node is its results, its op with attributes in brackets (axes, -> new
// axes, = index, / mesh axes), operands, result types, and a place. After a type stand the value's name and, when
// placement rules may bind it, `!`. Values are numbered in the order of definition; functions stand after their callees
// and dead ones are left out. Names that are not words are strings.
#ifndef PM_IR_TEXT_H
#define PM_IR_TEXT_H

#include "ir/ir.h"

void pm_module_print(const PmModule *m, PmBuf *out);
void pm_fn_print(const PmModule *m, PmFnId fn, PmBuf *out);
// INPUT with "path:line: text" when the text is not a module, breaks a type rule or a limit. Untrusted input.
PM_MUST_CHECK PmStatus *pm_module_read(PmArena *arena, PmInterner *names, const char *path, const char *text, size_t len,
                                       PmModule **out);
// Checks SSA order, types by pm_infer, callee signatures, bindings, unique names, recursion, placement validity (each
// mesh axis once a value, sizes divide). INTERNAL status naming the function and node when broken.
PM_MUST_CHECK PmStatus *pm_module_verify(const PmModule *m);

#endif

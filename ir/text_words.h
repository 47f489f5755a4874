// The words of the text form, shared by its printer and its reader so that neither can know one that the other lacks.
#ifndef PM_IR_TEXT_WORDS_H
#define PM_IR_TEXT_WORDS_H

#include "ir/ir.h"

#define PM_N_STAGES 3  // those that a module can be at
#define PM_N_FN_KINDS (PM_FN_EVAL + 1)
#define PM_N_INITS (PM_INIT_UNIFORM + 1)

extern const char *const pm_stage_words[PM_N_STAGES];
extern const char *const pm_fn_kind_words[PM_N_FN_KINDS];
extern const char *const pm_role_words[PM_ROLE_COUNT];
extern const char *const pm_init_words[PM_N_INITS];

// Names of this form print bare; all others as strings.
bool pm_text_is_word(const char *s);

#endif

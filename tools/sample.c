#include "tools/sample.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/slices.h"

static const PmOutput *find_logits(const PmProgram *p) {
  const PmEntry *e = &p->entries[PM_ENTRY_EVAL];
  for (int32_t i = 0; e->present && i < e->n_outputs; i++) {
    if (strcmp(e->outputs[i].name, "logits") == 0) return &e->outputs[i];
  }
  return NULL;
}

PmStatus *pm_sample_check(const PmProgram *p) {
  const PmOutput *logits = find_logits(p);
  if (!logits) return PM_STATUS(PM_ERR_INPUT, "`--sample` needs a value of the model that is named `logits`");
  if (p->data.x < 0) return PM_STATUS(PM_ERR_INPUT, "`--sample` needs `data` that feed the model's tokens");
  const PmProgVar *x = &p->vars[p->data.x];
  // With micro-batches the logits are those of the first, and tokens have an axis more in front.
  int32_t skip = x->rank - (logits->rank - 1);
  bool fits = skip == 0 || skip == 1;
  for (int32_t i = skip; fits && i < x->rank; i++) fits = strcmp(logits->dims[i - skip].axis, x->dims[i].axis) == 0;
  if (fits) return NULL;
  return PM_STATUS(PM_ERR_INPUT, "`--sample` needs `logits` with the axes of `%s` and then that of the vocabulary",
                   x->path);
}

// Each escape reads back, so that a text that holds one is no riddle.
static void put_token(int64_t token, PmBuf *out) {
  if (token > 255) {
    pm_buf_printf(out, "<%" PRId64 ">", token);
  } else if (token == '\\') {
    pm_buf_puts(out, "\\\\");
  } else if (token == '\n' || (token >= 32 && token < 127)) {
    pm_buf_putc(out, (char)token);
  } else {
    pm_buf_printf(out, "\\x%02x", (unsigned)token);
  }
}

static int64_t arg_max(const double *v, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++) {
    if (v[i] > v[best]) best = i;
  }
  return best;
}

typedef struct Sampler {
  PmRun *r;
  const PmOutput *logits;
  int64_t seq, vocab;
  double *tokens;  // the whole input; row 0 is the window
  double *values;  // the whole logits
} Sampler;

// The likeliest token after the first `len` of the window.
static PmStatus *next_token(const Sampler *s, int64_t len, int64_t *out) {
  PM_TRY(pm_run_set_var(s->r, s->r->p->data.x, s->tokens));
  PM_TRY(pm_session_run(s->r->session, PM_ENTRY_EVAL));
  PM_TRY(pm_run_output(s->r, PM_ENTRY_EVAL, s->logits, s->values));
  *out = arg_max(s->values + (len - 1) * s->vocab, s->vocab);
  return NULL;
}

static PmStatus *generate(const Sampler *s, int64_t n, PmBuf *out_prompt, PmBuf *out_text) {
  PM_TRY(pm_session_load(s->r->session, s->r->data, 0));
  PM_TRY(pm_run_get_var(s->r, s->r->p->data.x, s->tokens));
  int64_t len = s->seq > 1 ? s->seq / 2 : 1;
  for (int64_t i = 0; i < len; i++) put_token((int64_t)s->tokens[i], out_prompt);
  // A causal model does not see what follows; zeros make that a promise that anyone can check.
  for (int64_t i = len; i < s->seq; i++) s->tokens[i] = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t token;
    PM_TRY(next_token(s, len, &token));
    put_token(token, out_text);
    if (len == s->seq) {
      memmove(s->tokens, s->tokens + 1, (size_t)(s->seq - 1) * sizeof *s->tokens);
      len--;
    }
    s->tokens[len++] = (double)token;
  }
  return NULL;
}

PmStatus *pm_sample(PmRun *r, int64_t n, PmBuf *out_prompt, PmBuf *out_text) {
  PM_TRY(pm_sample_check(r->p));
  const PmProgVar *x = &r->p->vars[r->p->data.x];
  Sampler s = {.r = r, .logits = find_logits(r->p)};
  s.seq = x->dims[x->rank - 1].size;
  s.vocab = s.logits->dims[s.logits->rank - 1].size;
  s.tokens = calloc((size_t)pm_dims_elements(x->dims, x->rank), sizeof *s.tokens);
  s.values = calloc((size_t)pm_dims_elements(s.logits->dims, s.logits->rank), sizeof *s.values);
  PmStatus *st = s.tokens && s.values ? generate(&s, n, out_prompt, out_text)
                                      : PM_STATUS(PM_ERR_LIMIT, "no memory for the logits of a window");
  free(s.tokens);
  free(s.values);
  return st;
}

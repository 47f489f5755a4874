#include "tools/lsp_server.h"

#include <string.h>

#include "base/json_read.h"
#include "tools/lsp_answers.h"
#include "tools/lsp_frame.h"
#include "tools/show.h"

typedef enum RpcError {
  RPC_NONE = 0,
  RPC_PARSE = -32700,
  RPC_REQUEST = -32600,
  RPC_METHOD = -32601,
  RPC_PARAMS = -32602,
  RPC_NOT_INITIALIZED = -32002,
} RpcError;

typedef struct Server {
  const PmTool *t;
  FILE *in, *out;
  PmArena scratch;  // of one message
  PmBuf body, answer;
  PmLspDoc docs[PM_LSP_MAX_DOCS];
  bool initialized, shut_down, ended;
} Server;

// `params` of a message; writes the result. Notifications write nothing.
typedef RpcError (*Request)(Server *s, const PmJsonValue *params, PmJson *result);
typedef PmStatus *(*Notify)(Server *s, const PmJsonValue *params);
// The answer to a question about one position of a document.
typedef void (*AtPlace)(PmJson *j, PmArena *scratch, const PmLspDoc *d, PmLspPos pos);

static PmLspDoc *find_doc(Server *s, const PmJsonValue *params) {
  const char *uri = pm_json_text(pm_json_get(pm_json_get(params, "textDocument"), "uri"));
  for (int32_t i = 0; uri && i < PM_LSP_MAX_DOCS; i++) {
    if (s->docs[i].uri && strcmp(s->docs[i].uri, uri) == 0) return &s->docs[i];
  }
  return NULL;
}

static PmStatus *publish(Server *s, const PmLspDoc *d, const char *uri) {
  PmJson j;
  pm_buf_clear(&s->answer);
  pm_json_init(&j, &s->answer, false);
  pm_json_object(&j);
  pm_json_put_str(&j, "jsonrpc", "2.0");
  pm_json_put_str(&j, "method", "textDocument/publishDiagnostics");
  pm_json_key(&j, "params");
  pm_lsp_put_diagnostics(&j, d, uri);
  pm_json_end_object(&j);
  return pm_lsp_write_frame(s->out, &s->answer);
}

static PmStatus *update(Server *s, PmLspDoc *d, const PmJsonValue *text, const PmJsonValue *document) {
  d->has_version = pm_json_whole(pm_json_get(document, "version"), INT32_MIN, INT32_MAX, &d->version);
  pm_lsp_doc_update(d, s->t, text->str, text->str_len);
  return publish(s, d, d->uri);
}

static PmStatus *did_open(Server *s, const PmJsonValue *params) {
  const PmJsonValue *document = pm_json_get(params, "textDocument");
  const PmJsonValue *text = pm_json_get(document, "text");
  const char *uri = pm_json_text(pm_json_get(document, "uri"));
  const char *path = uri ? pm_lsp_path_of_uri(&s->scratch, uri) : NULL;
  if (!path || !text || text->kind != PM_JSON_STR) return NULL;
  PmLspDoc *d = find_doc(s, params);
  for (int32_t i = 0; !d && i < PM_LSP_MAX_DOCS; i++) {
    if (!s->docs[i].uri) pm_lsp_doc_open(d = &s->docs[i], uri, path);
  }
  return d ? update(s, d, text, document) : NULL;
}

// Changes carry the whole text, as `initialize` asked; the last one counts.
static PmStatus *did_change(Server *s, const PmJsonValue *params) {
  PmLspDoc *d = find_doc(s, params);
  const PmJsonValue *changes = pm_json_get(params, "contentChanges"), *last = NULL;
  if (!d || !changes || changes->kind != PM_JSON_ARRAY) return NULL;
  for (const PmJsonValue *c = changes->first; c; c = c->next) last = c;
  const PmJsonValue *text = pm_json_get(last, "text");
  if (!text || text->kind != PM_JSON_STR || pm_json_get(last, "range")) return NULL;
  return update(s, d, text, pm_json_get(params, "textDocument"));
}

static PmStatus *did_close(Server *s, const PmJsonValue *params) {
  PmLspDoc *d = find_doc(s, params);
  if (!d) return NULL;
  PmStatus *st = publish(s, NULL, d->uri);
  pm_lsp_doc_close(d);
  return st;
}

static PmStatus *exit_now(Server *s, const PmJsonValue *params) {
  (void)params;
  s->ended = true;
  return s->shut_down ? NULL : PM_STATUS(PM_ERR_INPUT, "`exit` without `shutdown`");
}

static RpcError initialize(Server *s, const PmJsonValue *params, PmJson *result) {
  (void)params;
  if (s->initialized) return RPC_REQUEST;
  s->initialized = true;
  pm_json_object(result);
  pm_json_key(result, "capabilities");
  pm_json_object(result);
  pm_json_put_str(result, "positionEncoding", "utf-16");
  pm_json_key(result, "textDocumentSync");
  pm_json_object(result);
  pm_json_put_bool(result, "openClose", true);
  pm_json_put_i64(result, "change", 1);  // TextDocumentSyncKind.Full
  pm_json_end_object(result);
  pm_json_put_bool(result, "hoverProvider", true);
  pm_json_put_bool(result, "definitionProvider", true);
  pm_json_put_bool(result, "documentFormattingProvider", true);
  pm_json_key(result, "completionProvider");
  pm_json_object(result);
  pm_json_key(result, "triggerCharacters");
  pm_json_array(result);
  pm_json_str(result, "[");
  pm_json_str(result, ",");
  pm_json_end_array(result);
  pm_json_end_object(result);
  pm_json_end_object(result);
  pm_json_key(result, "serverInfo");
  pm_json_object(result);
  pm_json_put_str(result, "name", "pmodel");
  pm_json_end_object(result);
  pm_json_end_object(result);
  return RPC_NONE;
}

static RpcError shutdown_server(Server *s, const PmJsonValue *params, PmJson *result) {
  (void)params;
  s->shut_down = true;
  pm_json_null(result);
  return RPC_NONE;
}

static bool find_place(Server *s, const PmJsonValue *params, PmLspDoc **out_doc, PmLspPos *out) {
  const PmJsonValue *pos = pm_json_get(params, "position");
  int64_t line, character;
  *out_doc = find_doc(s, params);
  if (!*out_doc || !pm_json_whole(pm_json_get(pos, "line"), 0, INT32_MAX, &line) ||
      !pm_json_whole(pm_json_get(pos, "character"), 0, INT32_MAX, &character)) {
    return false;
  }
  *out = (PmLspPos){(int32_t)line, (int32_t)character};
  return true;
}

static RpcError formatting(Server *s, const PmJsonValue *params, PmJson *result) {
  const PmLspDoc *d = find_doc(s, params);
  if (!d) return RPC_PARAMS;
  pm_lsp_put_formatting(result, &s->scratch, d);
  return RPC_NONE;
}

// One of the three is set.
typedef struct Method {
  const char *name;
  Request request;
  AtPlace place;
  Notify notify;
} Method;

static const Method methods[] = {
    {"initialize", initialize, NULL, NULL},
    {"shutdown", shutdown_server, NULL, NULL},
    {"exit", NULL, NULL, exit_now},
    {"textDocument/didOpen", NULL, NULL, did_open},
    {"textDocument/didChange", NULL, NULL, did_change},
    {"textDocument/didClose", NULL, NULL, did_close},
    {"textDocument/hover", NULL, pm_lsp_put_hover, NULL},
    {"textDocument/definition", NULL, pm_lsp_put_definition, NULL},
    {"textDocument/completion", NULL, pm_lsp_put_completion, NULL},
    {"textDocument/formatting", formatting, NULL, NULL},
};

static const char *error_text(RpcError e) {
  switch (e) {
    case RPC_NONE:
      break;
    case RPC_PARSE:
      return "the message is not JSON";
    case RPC_REQUEST:
      return "not a request that can be answered now";
    case RPC_METHOD:
      return "this server has no such method";
    case RPC_PARAMS:
      return "the parameters name no open document or no position";
    case RPC_NOT_INITIALIZED:
      return "`initialize` must come first";
  }
  return "";
}

static bool is_number(const PmJsonValue *v) { return v && (v->kind == PM_JSON_INT || v->kind == PM_JSON_REAL); }

static void put_id(PmJson *j, const PmJsonValue *id) {
  pm_json_key(j, "id");
  if (pm_json_text(id)) {
    pm_json_str(j, id->str);
  } else if (is_number(id)) {
    int64_t whole;
    if (pm_json_whole(id, -(INT64_C(1) << 53), INT64_C(1) << 53, &whole)) {
      pm_json_i64(j, whole);
    } else {
      pm_json_f64(j, id->real);
    }
  } else {
    pm_json_null(j);
  }
}

static void open_answer(Server *s, const PmJsonValue *id, PmJson *out) {
  pm_buf_clear(&s->answer);
  pm_json_init(out, &s->answer, false);
  pm_json_object(out);
  pm_json_put_str(out, "jsonrpc", "2.0");
  put_id(out, id);
}

static PmStatus *send_error(Server *s, const PmJsonValue *id, RpcError e, const char *why) {
  PmJson j;
  open_answer(s, id, &j);
  pm_json_key(&j, "error");
  pm_json_object(&j);
  pm_json_put_i64(&j, "code", e);
  pm_json_put_str(&j, "message", why ? pm_arena_printf(&s->scratch, "%s: %s", error_text(e), why) : error_text(e));
  pm_json_end_object(&j);
  pm_json_end_object(&j);
  return pm_lsp_write_frame(s->out, &s->answer);
}

static RpcError ask(Server *s, const Method *m, const PmJsonValue *params, PmJson *result) {
  PmLspDoc *d;
  PmLspPos pos;
  if (m->request) return m->request(s, params, result);
  if (!find_place(s, params, &d, &pos)) return RPC_PARAMS;
  m->place(result, &s->scratch, d, pos);
  return RPC_NONE;
}

static PmStatus *answer(Server *s, const PmJsonValue *id, const Method *m, const PmJsonValue *params) {
  PmJson j;
  open_answer(s, id, &j);
  pm_json_key(&j, "result");
  RpcError e = ask(s, m, params, &j);
  if (e != RPC_NONE) return send_error(s, id, e, NULL);
  pm_json_end_object(&j);
  return pm_lsp_write_frame(s->out, &s->answer);
}

static PmStatus *take_request(Server *s, const PmJsonValue *id, const char *method, const PmJsonValue *params) {
  if (s->shut_down) return send_error(s, id, RPC_REQUEST, "the server was shut down");
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    if (methods[i].notify || strcmp(methods[i].name, method) != 0) continue;
    if (!s->initialized && methods[i].request != initialize) return send_error(s, id, RPC_NOT_INITIALIZED, NULL);
    return answer(s, id, &methods[i], params);
  }
  return send_error(s, id, RPC_METHOD, method);
}

// Notifications that nobody knows, or that come at the wrong time, are ignored: nothing may answer them.
static PmStatus *take_notification(Server *s, const char *method, const PmJsonValue *params) {
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    if (!methods[i].notify || strcmp(methods[i].name, method) != 0) continue;
    bool now = methods[i].notify == exit_now || (s->initialized && !s->shut_down);
    return now ? methods[i].notify(s, params) : NULL;
  }
  return NULL;
}

static PmStatus *take_message(Server *s) {
  const PmJsonValue *m;
  PmJsonError error;
  pm_arena_reset(&s->scratch);
  // A document with a NUL in it is a message like any other.
  if (!pm_json_read(&s->scratch, pm_buf_str(&s->body), s->body.len, true, &m, &error))
    return send_error(s, NULL, RPC_PARSE, error.message);
  const PmJsonValue *id = pm_json_get(m, "id"), *method = pm_json_get(m, "method");
  bool is_answer = m->kind == PM_JSON_OBJECT && !method && (pm_json_get(m, "result") || pm_json_get(m, "error"));
  if (is_answer) return NULL;
  const char *name = pm_json_text(method);
  bool id_ok = !id || is_number(id) || pm_json_text(id);
  const char *version = pm_json_text(pm_json_get(m, "jsonrpc"));
  if (!name || !id_ok || !version || strcmp(version, "2.0") != 0) return send_error(s, id, RPC_REQUEST, NULL);
  const PmJsonValue *params = pm_json_get(m, "params");
  return id ? take_request(s, id, name, params) : take_notification(s, name, params);
}

static PmStatus *serve(Server *s) {
  while (!s->ended) {
    bool end, skipped;
    PM_TRY(pm_lsp_read_frame(s->in, &s->body, &end, &skipped));
    if (end) return PM_STATUS(PM_ERR_INPUT, "the stream ended without `exit`");
    PM_TRY(skipped ? send_error(s, NULL, RPC_REQUEST, "the message is too long") : take_message(s));
  }
  return NULL;
}

PmStatus *pm_lsp_serve(const PmTool *t, FILE *in, FILE *out) {
  Server s = {.t = t, .in = in, .out = out};
  pm_arena_init(&s.scratch, 0);
  pm_buf_init(&s.body);
  pm_buf_init(&s.answer);
  PmStatus *st = serve(&s);
  for (int32_t i = 0; i < PM_LSP_MAX_DOCS; i++) {
    if (s.docs[i].uri) pm_lsp_doc_close(&s.docs[i]);
  }
  pm_buf_deinit(&s.answer);
  pm_buf_deinit(&s.body);
  pm_arena_deinit(&s.scratch);
  return st;
}

// What each published family says in its config.json. The defaults are those of the published configuration classes.
#include "tools/import.h"

static const char no_window[] = "`causal_attention` sees every earlier position: there is no window";

#define END {NULL, PM_IMPORT_COUNT, NULL, NULL, NULL}

static const PmImportKey gpt2[] = {
    {"vocab_size", PM_IMPORT_COUNT, "vocab", NULL, NULL},
    {"n_positions", PM_IMPORT_COUNT, "seq", NULL, NULL},
    {"n_layer", PM_IMPORT_COUNT, "layer", NULL, NULL},
    {"n_embd", PM_IMPORT_COUNT, "embed", NULL, NULL},
    {"n_head", PM_IMPORT_COUNT, "heads", NULL, NULL},
    {"n_inner", PM_IMPORT_COUNT, "ff", "", NULL},
    {"layer_norm_epsilon", PM_IMPORT_REAL, "eps", "1e-5", NULL},
    {"initializer_range", PM_IMPORT_REAL, "init", "0.02", NULL},
    {"activation_function", PM_IMPORT_ACT, "act", "\"gelu_new\"", NULL},
    {"tie_word_embeddings", PM_IMPORT_FLAG, "tied", "true", NULL},
    {"scale_attn_weights", PM_IMPORT_EQUALS, NULL, "true", "`causal_attention` always divides by the root of hdim"},
    {"scale_attn_by_inverse_layer_idx", PM_IMPORT_ABSENT, NULL, NULL, "the text of a `repeat` does not know its turn"},
    {"add_cross_attention", PM_IMPORT_ABSENT, NULL, NULL, "there is one stream of tokens, and no encoder"},
    END,
};

static const PmImportKey decoder[] = {
    {"vocab_size", PM_IMPORT_COUNT, "vocab", NULL, NULL},
    {"max_position_embeddings", PM_IMPORT_COUNT, "seq", NULL, NULL},
    {"num_hidden_layers", PM_IMPORT_COUNT, "layer", NULL, NULL},
    {"hidden_size", PM_IMPORT_COUNT, "embed", NULL, NULL},
    {"intermediate_size", PM_IMPORT_COUNT, "ff", NULL, NULL},
    {"num_attention_heads", PM_IMPORT_COUNT, "heads", NULL, NULL},
    {"num_key_value_heads", PM_IMPORT_COUNT, "kvheads", "", NULL},
    {"head_dim", PM_IMPORT_COUNT, "head_dim", "", NULL},
    {"rms_norm_eps", PM_IMPORT_REAL, "eps", NULL, NULL},
    {"rope_theta", PM_IMPORT_REAL, "theta", "10000.0", NULL},
    {"initializer_range", PM_IMPORT_REAL, "init", "0.02", NULL},
    {"hidden_act", PM_IMPORT_ACT, "act", "\"silu\"", NULL},
    {"tie_word_embeddings", PM_IMPORT_FLAG, "tied", "false", NULL},
    {"rope_scaling", PM_IMPORT_ROPE, "rope", "", NULL},
    {"rope_parameters", PM_IMPORT_ABSENT, NULL, NULL, "the importer reads `rope_theta` as a key of its own"},
    {"partial_rotary_factor", PM_IMPORT_EQUALS, NULL, "1.0", "`rope` turns the whole of hdim"},
    {"mlp_bias", PM_IMPORT_ABSENT, NULL, NULL, "the template's mlp has no biases"},
    END,
};

static const PmImportKey full_attention[] = {
    {"sliding_window", PM_IMPORT_ABSENT, NULL, NULL, no_window},
    END,
};
static const PmImportKey llama_bias[] = {
    {"attention_bias", PM_IMPORT_FLAG, "biases", "false", NULL},
    {"kv_lora_rank", PM_IMPORT_ABSENT, NULL, NULL, "this family has no latent attention"},
    END,
};
static const PmImportKey latent[] = {
    {"kv_lora_rank", PM_IMPORT_COUNT, "kvrank", NULL, NULL},
    {"q_lora_rank", PM_IMPORT_COUNT, "qrank", "", NULL},
    {"qk_nope_head_dim", PM_IMPORT_COUNT, "nope", NULL, NULL},
    {"qk_rope_head_dim", PM_IMPORT_COUNT, "turn", NULL, NULL},
    {"v_head_dim", PM_IMPORT_COUNT, "vdim", NULL, NULL},
    {"attention_bias", PM_IMPORT_ABSENT, NULL, NULL, "the template's latent attention has no biases"},
    {"num_nextn_predict_layers", PM_IMPORT_EQUALS, NULL, "0", "the template predicts the next token only"},
    END,
};
static const PmImportKey window_switch[] = {
    {"use_sliding_window", PM_IMPORT_ABSENT, NULL, NULL, no_window},
    END,
};

static const PmImportKey mixtral_experts[] = {
    {"num_local_experts", PM_IMPORT_COUNT, "expert", NULL, NULL},
    {"num_experts_per_tok", PM_IMPORT_COUNT, "choice", NULL, NULL},
    {"router_aux_loss_coef", PM_IMPORT_REAL0, "aux", "0.001", NULL},
    {"router_jitter_noise", PM_IMPORT_EQUALS, NULL, "0.0", "there are no random numbers inside of a step"},
    END,
};
static const PmImportKey qwen_experts[] = {
    {"num_experts", PM_IMPORT_COUNT, "expert", NULL, NULL},
    {"num_experts_per_tok", PM_IMPORT_COUNT, "choice", NULL, NULL},
    {"moe_intermediate_size", PM_IMPORT_COUNT, "expertff", NULL, NULL},
    {"norm_topk_prob", PM_IMPORT_FLAG, "renorm", "false", NULL},
    {"router_aux_loss_coef", PM_IMPORT_REAL0, "aux", "0.001", NULL},
    {"decoder_sparse_step", PM_IMPORT_EQUALS, NULL, "1", "the layers of a `repeat` are alike"},
    {"mlp_only_layers", PM_IMPORT_ABSENT, NULL, NULL, "the layers of a `repeat` are alike"},
    END,
};
static const PmImportKey deepseek_experts[] = {
    {"n_routed_experts", PM_IMPORT_COUNT, "expert", NULL, NULL},
    {"num_experts_per_tok", PM_IMPORT_COUNT, "choice", NULL, NULL},
    {"moe_intermediate_size", PM_IMPORT_COUNT, "expertff", NULL, NULL},
    {"n_shared_experts", PM_IMPORT_COUNT0, "shared", "0", NULL},
    {"first_k_dense_replace", PM_IMPORT_COUNT0, "dense", "0", NULL},
    {"norm_topk_prob", PM_IMPORT_FLAG, "renorm", "false", NULL},
    {"routed_scaling_factor", PM_IMPORT_REAL, "scaled", "1.0", NULL},
    {"aux_loss_alpha", PM_IMPORT_REAL0, "aux", "0.001", NULL},
    {"seq_aux", PM_IMPORT_FLAG, "seq_aux", "true", NULL},
    {"moe_layer_freq", PM_IMPORT_EQUALS, NULL, "1", "the layers of a `repeat` are alike"},
    {"n_group", PM_IMPORT_EQUALS, NULL, "1", "`topk` chooses from all experts, not group by group"},
    END,
};

static const PmImportKey softmax_router[] = {
    {"scoring_func", PM_IMPORT_EQUALS, NULL, "\"softmax\"", "this family's router is a softmax"},
    {"topk_method", PM_IMPORT_EQUALS, NULL, "\"greedy\"", "`topk` chooses from all experts, not group by group"},
    END,
};
static const PmImportKey sigmoid_router[] = {
    {"scoring_func", PM_IMPORT_EQUALS, NULL, "\"sigmoid\"", "this family's router is a sigmoid"},
    {"topk_method", PM_IMPORT_EQUALS, NULL, "\"noaux_tc\"", "this family balances by a bias"},
    END,
};

#define GPT2_TEMPLATE pm_import_gpt2, &pm_import_gpt2_len
#define DECODER_TEMPLATE pm_import_decoder, &pm_import_decoder_len

static const PmImportFamily families[] = {
    {"deepseek", "DeepSeek MoE", {deepseek_experts, softmax_router, decoder, llama_bias}, "moe", DECODER_TEMPLATE},
    {"deepseek_v2", "DeepSeek-V2", {deepseek_experts, softmax_router, decoder, latent}, "moe", DECODER_TEMPLATE},
    {"deepseek_v3",
     "DeepSeek-V3",
     {deepseek_experts, sigmoid_router, decoder, latent},
     "moe sigmoid",
     DECODER_TEMPLATE},
    {"gpt2", "GPT-2", {gpt2}, "", GPT2_TEMPLATE},
    {"llama", "Llama", {decoder, llama_bias}, "", DECODER_TEMPLATE},
    {"mistral", "Mistral", {decoder, full_attention}, "", DECODER_TEMPLATE},
    {"mixtral", "Mixtral", {mixtral_experts, decoder, full_attention}, "moe renorm", DECODER_TEMPLATE},
    {"qwen2", "Qwen2", {decoder, window_switch}, "qkv_bias", DECODER_TEMPLATE},
    {"qwen3", "Qwen3", {decoder, llama_bias, window_switch}, "qk_norm", DECODER_TEMPLATE},
    {"qwen3_moe", "Qwen3 MoE", {qwen_experts, decoder, llama_bias, window_switch}, "moe qk_norm", DECODER_TEMPLATE},
};

const PmImportFamily *pm_import_families(int32_t *out_n) {
  *out_n = (int32_t)(sizeof families / sizeof *families);
  return families;
}

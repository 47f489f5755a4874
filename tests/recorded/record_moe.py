"""Sparse models: each twice, densely in JAX (every expert on every token, most with weight 0) and slot by slot in numpy."""
import jax
import jax.numpy as jnp
import numpy as np
import optax

from parts import (BATCH, EMBED, LAYER, SEQ, VOCAB, GroupedAttention, Model, Param, jax_rmsnorm, layer_params,
                   norm_params, rmsnorm, silu, xent)

TOKENS, EXPERTS, CHOICE = BATCH * SEQ, 4, 2
ROUTING_GAP = 1e-4  # a float32 run must choose the same experts


class Moe(Model, GroupedAttention):
    """A decoder with experts in place of the MLP; subclasses say what the router does."""
    ff, slots = 12, TOKENS * CHOICE

    def params(self):
        p = {"tok": Param((VOCAB, EMBED), 0.5, repeated=False), "head": Param((EMBED, VOCAB), 0.06, repeated=False)}
        p |= norm_params("layer.n1", "g", True) | norm_params("layer.n2", "g", True)
        p |= self.attention_params()
        p["layer.ffn.wr"] = Param((EMBED, EXPERTS), 0.5)
        p["layer.ffn.w1"] = Param((EXPERTS, EMBED, self.ff), 0.25)
        p["layer.ffn.w3"] = Param((EXPERTS, EMBED, self.ff), 0.25)
        p["layer.ffn.w2"] = Param((EXPERTS, self.ff, EMBED), 0.2)
        return p | self.more_params() | norm_params("nf", "g", False)

    def more_params(self):
        return {}

    def loss_and_states(self, p, s, x, y):
        h, aux, after = p["tok"][x], 0.0, []
        for i in range(LAYER):
            w = layer_params(p, i)
            h = h + jax.vmap(lambda a: self.jax_attend(w, a))(jax_rmsnorm(h, w["n1.g"]))
            flat = jax_rmsnorm(h, w["n2.g"]).reshape(TOKENS, EMBED)
            out, balance, bias = self.jax_layer(w, {path: a[i] for path, a in s.items()}, flat)
            h, aux = h + out.reshape(h.shape), aux + balance / LAYER
            after.append(bias)
        nll = optax.softmax_cross_entropy_with_integer_labels(jax_rmsnorm(h, p["nf.g"]) @ p["head"], y).mean()
        return nll + aux, {path: jnp.stack([a[path] for a in after]) for path in s}

    def jax_experts(self, w, x, weight):
        """The sum over experts of weight[token, expert] times what the expert makes of the token."""
        def expert(w1, w3, w2):
            return (jax.nn.silu(x @ w1) * (x @ w3)) @ w2
        return jnp.einsum("te,etd->td", weight, jax.vmap(expert)(w["ffn.w1"], w["ffn.w3"], w["ffn.w2"]))

    def numpy_loss_and_states(self, p, s, x, y):
        h, aux, after = p["tok"][x], 0.0, []
        for i in range(LAYER):
            w = layer_params(p, i)
            h = h + self.attend(w, rmsnorm(h, w["n1.g"]))
            out, balance, bias = self.numpy_layer(w, {path: a[i] for path, a in s.items()}, rmsnorm(h, w["n2.g"]))
            h, aux = h + out, aux + balance / LAYER
            after.append(bias)
        nll = xent(np.einsum("bse,ev->bsv", rmsnorm(h, p["nf.g"]), p["head"]), y)
        return nll + aux, {path: np.stack([a[path] for a in after]) for path in s}

    def numpy_experts(self, w, x, who):
        """dispatch, the experts on their slots, combine: [batch, seq, choice, embed], 0 where a token was dropped."""
        slot, taken = np.full(who.shape, -1), [0] * EXPERTS
        h = np.zeros((EXPERTS, self.slots, EMBED))
        for at in np.ndindex(who.shape):
            e = who[at]
            if taken[e] == self.slots:
                continue
            slot[at], h[e, taken[e]] = taken[e], x[at[:2]]
            taken[e] += 1
        u = silu(np.einsum("esd,edf->esf", h, w["ffn.w1"])) * np.einsum("esd,edf->esf", h, w["ffn.w3"])
        h = np.einsum("esf,efd->esd", u, w["ffn.w2"])
        return np.where(slot[..., None] >= 0, h[who, slot], 0.0)


def top_k(score):
    """The choices in order, and a check that rounding cannot change them."""
    order = np.argsort(-score, axis=-1, kind="stable")
    ranked = np.take_along_axis(score, order, -1)
    gap = (ranked[..., :CHOICE] - ranked[..., 1:CHOICE + 1]).min()
    assert gap > ROUTING_GAP, f"two experts are only {gap} apart"
    return order[..., :CHOICE]


def onehot(who):
    return np.eye(EXPERTS)[who]


class Mixtral(Moe):
    name, aux_weight = "mixtral_tiny", 0.02

    def jax_layer(self, w, s, x):
        p = jax.nn.softmax(x @ w["ffn.wr"])
        kept, who = jax.lax.top_k(p, CHOICE)
        chosen = jax.nn.one_hot(who, EXPERTS)
        weight = jnp.einsum("tce,tc->te", chosen, kept / kept.sum(1, keepdims=True))
        balance = EXPERTS * jnp.sum(chosen.mean((0, 1)) * p.mean(0))
        return self.jax_experts(w, x, weight), self.aux_weight * balance, s

    def numpy_layer(self, w, s, x):
        z = np.einsum("bse,ex->bsx", x, w["ffn.wr"])
        e = np.exp(z - z.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        who = top_k(p)
        kept = np.take_along_axis(p, who, -1)
        kept = kept / kept.sum(-1, keepdims=True)
        load = onehot(who).mean((0, 1, 2))
        balance = EXPERTS * (load * p.mean((0, 1))).sum()
        return (self.numpy_experts(w, x, who) * kept[..., None]).sum(2), self.aux_weight * balance, s


class DeepseekMoe(Moe):
    """Capacity 1.0, so that tokens are dropped, and a bias that moves far enough to change the choice."""
    name, slots, shared_ff, rate = "deepseek_moe_tiny", TOKENS * CHOICE // EXPERTS, 8, 0.05
    bias = "layer.ffn.bias"

    def more_params(self):
        return {"layer.ffn.shared.w1": Param((EMBED, self.shared_ff), 0.25),
                "layer.ffn.shared.w3": Param((EMBED, self.shared_ff), 0.25),
                "layer.ffn.shared.w2": Param((self.shared_ff, EMBED), 0.2)}

    def states(self):
        return {self.bias: np.zeros((LAYER, EXPERTS))}

    def jax_layer(self, w, s, x):
        score = jax.nn.sigmoid(x @ w["ffn.wr"])
        chosen = jax.nn.one_hot(jax.lax.top_k(score + s[self.bias], CHOICE)[1], EXPERTS)
        earlier = jnp.cumsum(chosen.reshape(-1, EXPERTS), 0).reshape(chosen.shape) - chosen
        kept = chosen * (earlier < self.slots)
        total = (chosen.sum(1) * score).sum(1, keepdims=True)
        bias = s[self.bias] + self.rate * jnp.sign(1 / EXPERTS - chosen.mean((0, 1)))
        shared = (jax.nn.silu(x @ w["ffn.shared.w1"]) * (x @ w["ffn.shared.w3"])) @ w["ffn.shared.w2"]
        return self.jax_experts(w, x, kept.sum(1) * score / total) + shared, 0.0, {self.bias: bias}

    def numpy_layer(self, w, s, x):
        score = 1 / (1 + np.exp(-np.einsum("bse,ex->bsx", x, w["ffn.wr"])))
        who = top_k(score + s[self.bias])
        kept = np.take_along_axis(score, who, -1)
        kept = kept / kept.sum(-1, keepdims=True)
        bias = s[self.bias] + self.rate * np.sign(1 / EXPERTS - onehot(who).mean((0, 1, 2)))
        u = silu(np.einsum("bse,ef->bsf", x, w["ffn.shared.w1"])) * np.einsum("bse,ef->bsf", x, w["ffn.shared.w3"])
        shared = np.einsum("bsf,fe->bse", u, w["ffn.shared.w2"])
        return (self.numpy_experts(w, x, who) * kept[..., None]).sum(2) + shared, 0.0, {self.bias: bias}

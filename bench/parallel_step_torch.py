# PyTorch's side of parallel_step.sh: the same sizes, one process with all cores against two of DDP over gloo.
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

LAYERS, EMBED, HEADS, VOCAB, BATCH, SEQ = 6, 384, 6, 8192, 8, 128


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, EMBED), nn.Embedding(SEQ, EMBED)
        layer = nn.TransformerEncoderLayer(EMBED, HEADS, 4 * EMBED, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(EMBED), enable_nested_tensor=False)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        h = self.layers(self.tok(x) + self.pos.weight, mask=mask, is_causal=True)
        return h @ self.tok.weight.T


def work(rank, ranks, threads, out):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = Gpt()
    if ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
        model = nn.parallel.DistributedDataParallel(model)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randint(0, VOCAB, (BATCH // ranks, SEQ))
    best = 1e9
    for step in range(8):
        start = time.perf_counter()
        adam.zero_grad()
        nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        if step > 1:
            best = min(best, time.perf_counter() - start)
    if rank == 0:
        out.put(best)
    if ranks > 1:
        dist.destroy_process_group()


def measure(ranks, cores):
    out = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, (ranks, max(1, cores // ranks), out), nprocs=ranks)
    return out.get()


if __name__ == "__main__":
    one, two = measure(1, int(sys.argv[1])), measure(2, int(sys.argv[1]))
    print(f"PyTorch: one process {one * 1e3:.1f} ms a step, DDP on 2 {two * 1e3:.1f} ms, {two / one:.2f} of one process")

"""What only an NVIDIA GPU can show, each by a run of the command line; skipped where there is none."""

import math

import pytest
import torch

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU on this machine")


@needs_gpu
@pytest.mark.parametrize(
    "words",
    [
        ["trainer=gpu", "trainer.precision=bf16-mixed"],
        ["trainer=ddp", "trainer.devices=1"],  # NCCL with one process
        ["trainer=gpu", "retrieval=knn"],  # faiss on the GPU where it is installed
    ],
    ids=["bf16", "nccl", "faiss"],
)
def test_a_run_on_the_gpu_ends_with_finite_figures(fit, words):
    metrics = fit("method=sharprecl", "logger=csv", *words).metrics
    assert metrics["status"] == "finished" and math.isfinite(metrics["test/macro_f1"])


@needs_gpu
def test_lora_trains_beside_weights_in_four_bits(fit):
    pytest.importorskip("bitsandbytes")
    metrics = fit("method=llm_lora", "logger=csv", "trainer=gpu", "+encoder.quantization=4bit").metrics
    assert metrics["status"] == "finished"


@needs_gpu
def test_the_gpu_finds_the_neighbours_that_the_processor_finds():
    faiss = pytest.importorskip("faiss")
    if not faiss.get_num_gpus():
        pytest.skip("this faiss has no GPU")
    points = torch.nn.functional.normalize(torch.randn(500, 16, generator=torch.Generator().manual_seed(0)), dim=1)
    exact = faiss.IndexFlatIP(16)
    exact.add(points.numpy())
    on_gpu = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, exact)
    assert (on_gpu.search(points.numpy(), 5)[1] == exact.search(points.numpy(), 5)[1]).mean() > 0.99

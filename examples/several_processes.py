"""A training loop for torchrun with two processes per training: `python examples/several_processes.py`, 20 seconds.

It reads torch.distributed's variables as under `torchrun --nproc-per-node 2`. Lightning (`Trainer(devices=2,
strategy="ddp")`), Accelerate and the Hugging Face Trainer read them, too. With GPUs, `dispatch.gpus_per_process` is 1.
"""

import gc

import torch
from sklearn.datasets import load_digits
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import hpo


def train(config, trial):
    """Join the process group, train, and leave it; the search uses the result of rank 0."""
    distributed.init_process_group("gloo")
    result = fit(config, trial)
    gc.collect()  # Delete the network before its process group; otherwise torch may hang.
    distributed.destroy_process_group()
    return result


def fit(config, trial):
    """Return the accuracy on digits outside the training split."""
    torch.set_num_threads(trial.threads)
    rank, size = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(trial.seed)
    digits = load_digits()
    images, labels = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
    model = nn.Sequential(nn.Linear(64, config["width"]), nn.ReLU(), nn.Linear(config["width"], 10))
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), config["lr"], momentum=0.9)
    for epoch in range(1, 6):
        # All processes have the same order, and each takes its share of a batch.
        for batch in torch.randperm(1400).split(64):
            own = batch[rank::size]
            optimizer.zero_grad()
            nn.functional.cross_entropy(parallel(images[own]), labels[own]).backward()
            optimizer.step()
        accuracy = (model(images[1400:]).argmax(-1) == labels[1400:]).float().mean().item()
        trial.report(epoch=epoch, accuracy=accuracy)
    return {"accuracy": accuracy, "processes": size}


if __name__ == "__main__":
    space = {"lr": hpo.log(1e-3, 1.0), "width": [16, 32, 64, 128]}
    settings = {"dispatch.processes_per_task": 2, "dispatch.cpus_per_worker": 0.5}
    goal = {"metric": "accuracy", "direction": "maximize"}
    study = hpo.search(train, space, trials=4, workers=1, settings=settings, **goal)
    print(study.best.score, study.best.config)
